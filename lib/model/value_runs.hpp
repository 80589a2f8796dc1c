#pragma once
// Values that edits take from other runs, and edits put on layers.

#include <mha/load/edit.hpp>
#include <mha/model/run.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

namespace mha {

/// Whole stages of other runs: without patches (`mean`), or of the texts that an edit names. Each
/// run is one pass for all layers, and each stage is computed once.
class ValueRuns {
public:
  /// Makes the layers of a value ("mean", "from 'text'") with its texts.
  using Make = std::function<std::shared_ptr<const TextLayers>(const std::string& value)>;
  explicit ValueRuns(Make make) : make_(std::move(make)) {}

  /// A stage of layer n, or of what follows the last. May be called by several threads.
  UnpatchedValues stage(std::size_t n, Stage stage, const std::string& value);

private:
  Make make_;
  std::mutex lock_;
  std::map<std::string, std::unique_ptr<Streams>> runs_;
  std::map<std::tuple<std::string, std::size_t, Stage>, UnpatchedValues> stages_;
};

/// Puts an edit on a layer that it is of; `number`: of the layer. What enters the first block is
/// the first layer's stream. Throws Error, which begins with the edit's text, where it does not
/// fit.
const ResolvedEdit& put_on(Layer& layer, StageEdit edit, std::size_t number,
                           const UnpatchedStage& unpatched);

} // namespace mha
