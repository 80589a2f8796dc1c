#pragma once
// A layer of a run: what the next one reads is made beside whatever is computed of it.

#include <mha/load/load.hpp>
#include <mha/observe/compute.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace mha {

/// One layer on its stream. A computation that is made through this also computes what the next
/// layer reads (resid_post, for a rollout also that), and keeps it here, so that one computation
/// serves an observer and the next layer. Others of the layer (mha::compute) hand nothing on.
class LayerRun {
public:
  /// `counts`: gets how often the layer is computed; null: nothing counts. `hands_on`: what
  /// something reads of it, of resid_post at `positions`, in ascending order (empty: at all of
  /// them).
  LayerRun(const Layer& layer, std::shared_ptr<LayerCounts> counts, const StageSet& hands_on,
           std::vector<std::size_t> positions = {});

  /// Whether something reads the layer's resid_post.
  bool hands_on() const { return contains(hands_on_, Stage::resid_post); }

  /// Shows `observer` what the plan asks for, and makes what the plan's batch items hand on. The
  /// layer is that of the run, unchanged, or one of its batch items or its first tokens
  /// (first_tokens.hpp). Its tensors are let go as by mha::compute.
  PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads = 0);

  /// The stream after the layer: B, T, d_model; zeros in the padding, and where no row is read.
  /// Computes the batch items that no computation has handed on; `times`, where it is not null,
  /// gets theirs.
  const Tensor& stream(std::size_t threads = 0, PhaseTimes* times = nullptr) {
    return handed_on(Stage::resid_post, threads, times);
  }
  /// The rollout after the layer: B, T, T.
  const Tensor& rollout(std::size_t threads = 0) { return handed_on(Stage::rollout, threads); }

private:
  class Beside;

  const Tensor& handed_on(Stage stage, std::size_t threads, PhaseTimes* times = nullptr);
  std::size_t item_of(const Layer& layer, std::size_t batch) const;
  std::vector<std::size_t> begin(const Layer& layer, const std::vector<std::size_t>& items);
  void count(const Plan& plan);

  std::shared_ptr<LayerCounts> counts_;
  StageSet hands_on_;
  std::vector<std::size_t> positions_;
  Dims dims_;
  std::size_t first_item_;
  std::vector<std::size_t> lengths_;
  std::optional<Layer> layer_;        ///< as long as some items are missing
  std::map<Stage, Tensor> handed_on_; ///< B, T and a stage's width

  std::mutex lock_;           ///< of what follows
  std::vector<bool> missing_; ///< items whose rows no computation makes or has made
  std::array<std::size_t, stage_count> blocks_done_{};
  std::size_t times_ = 0;
};

} // namespace mha
