#pragma once
// A pass of texts without patches, computed as far as it is asked for and kept as the streams
// between layers: where means and values of patches come from.

#include <mha/model/run.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace mha {

/// May be used by several threads.
class UnpatchedPass {
public:
  /// `threads`: 0: as many as pay.
  explicit UnpatchedPass(std::shared_ptr<const TextLayers> layers, std::size_t threads = 0)
      : layers_(std::move(layers)), threads_(threads) {}

  const TextLayers& layers() const { return *layers_; }
  /// The stream before a layer, or behind the last.
  Residual before(std::size_t layer);
  /// A layer with that stream; behind the last one the model's ends.
  Layer layer(std::size_t number);
  /// A whole stage of it, batch axis first.
  Tensor stage(std::size_t layer, Stage stage);

private:
  std::shared_ptr<const TextLayers> layers_;
  std::size_t threads_;
  std::mutex lock_;
  std::vector<Residual> streams_;
};

} // namespace mha
