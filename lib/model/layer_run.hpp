#pragma once
// One layer of a run, which keeps what the next layer reads whenever it is computed.

#include <mha/load/load.hpp>
#include <mha/observe/compute.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace mha {

/// One layer on its stream. compute() also computes what the next layer reads (resid_post, and the
/// rollout where one is asked for) and keeps it here, so that one computation serves an observer
/// and the next layer. mha::compute of the same layer keeps nothing.
class LayerRun {
public:
  /// `counts`: gets how often the layer is computed; null: nothing counts. `outputs`: the stages
  /// that are kept, resid_post only at `positions`, in ascending order (empty: at all of them).
  LayerRun(const Layer& layer, std::shared_ptr<LayerCounts> counts, const StageSet& outputs,
           std::vector<std::size_t> positions = {});

  const Dims& dims() const { return dims_; }
  /// Whether the layer's resid_post is kept.
  bool keeps_stream() const { return contains(outputs_, Stage::resid_post); }

  /// Shows `observer` what the plan asks for, and keeps the outputs of the plan's batch items. The
  /// layer is that of the run, unchanged, or one of its batch items or its first tokens
  /// (first_tokens.hpp). Its tensors are released as by mha::compute.
  PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads = 0);

  /// The stream after the layer: B, T, d_model; zeros in the padding, and where no row is read.
  /// Computes the batch items whose outputs are missing; `times`, where it is not null, gets their
  /// times.
  const Tensor& stream(std::size_t threads = 0, PhaseTimes* times = nullptr) {
    return kept(Stage::resid_post, threads, times);
  }
  /// Another kept output: B, T and its columns, of heads side by side.
  const Tensor& output(Stage stage, std::size_t threads = 0) { return kept(stage, threads); }
  /// The rollout after the layer: B, T, T.
  const Tensor& rollout(std::size_t threads = 0) { return kept(Stage::rollout, threads); }

private:
  class KeepingObserver;

  const Tensor& kept(Stage stage, std::size_t threads, PhaseTimes* times = nullptr);
  std::size_t item_of(const Layer& layer, std::size_t batch) const;
  std::vector<std::size_t> begin(const Layer& layer, const std::vector<std::size_t>& items);
  void count(const Plan& plan);

  std::shared_ptr<LayerCounts> counts_;
  StageSet outputs_;
  std::vector<std::size_t> positions_;
  Dims dims_;
  std::size_t first_item_;
  std::vector<std::size_t> lengths_;
  std::optional<Layer> layer_;   ///< as long as some items are missing
  std::map<Stage, Tensor> kept_; ///< B, T and a stage's columns, of its heads side by side

  std::mutex lock_;           ///< of what follows
  std::vector<bool> missing_; ///< items whose rows no computation makes or has made
  std::array<std::size_t, stage_count> blocks_done_{};
  std::size_t times_ = 0;
};

} // namespace mha
