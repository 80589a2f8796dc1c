#pragma once
// Observers that keep stages in memory.

#include <mha/layer/layer.hpp>
#include <mha/observe/mergeable.hpp>
#include <mha/observe/placement.hpp>
#include <mha/schedule/observer.hpp>

#include <map>

namespace mha {

class Trace : public Mergeable {
public:
  /// Allocates memory for the selected parts of `wanted`. Throws Error if they would not fit into
  /// this machine's memory, with the size and a way out.
  Trace(const Layer& layer, const std::vector<Stage>& wanted, const Selection& selection = {});

  StageSet wants() const override;
  std::optional<std::size_t> batch() const override;
  void observe(const Slice& block) override;
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// The selected value of a stage, in layer.dtype_of(stage) and the shape of Placement. Throws
  /// Error for a stage that was not asked for. An rvalue returns its tensor.
  const Tensor& value(Stage stage) const&;
  Tensor value(Stage stage) &&;
  const Placement& placement(Stage stage) const;

private:
  struct Kept {
    Placement placement;
    Tensor value;
  };
  std::map<Stage, Kept> kept_;
};

/// Computes some stages of a layer and keeps them. `by`: how the layer is computed.
Trace trace(const Layer& layer, const std::vector<Stage>& wanted, const Selection& selection = {},
            std::size_t threads = 0, const ComputeLayer& by = compute);

/// Computes a stage, with a batch axis in front even if the layer's input has none.
Tensor whole_stage(const Layer& layer, Stage stage, std::size_t threads = 0);
/// A stage's value with a batch axis in front even if the layer's input has none.
Tensor with_batch_axis(const Layer& layer, const Tensor& value);

/// Keeps whole token stages in the form of Layer::given: B, T, width; zeros where nothing is
/// planned.
class KeptTokens : public Observer {
public:
  KeptTokens(const Layer& layer, const StageSet& wanted);
  StageSet wants() const override { return wanted_; }
  void observe(const Slice& block) override;
  const Tensor& tensor(Stage stage) const { return kept_.at(stage); }

private:
  StageSet wanted_;
  std::map<Stage, Tensor> kept_;
};

} // namespace mha
