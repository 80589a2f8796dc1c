#pragma once
// A layer that hands its stream on (layer_pass.hpp): what else its computation computes, and what
// of that its observer is shown.

#include <mha/layer/layer_pass.hpp>
#include <mha/schedule/meter.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/plan.hpp>

#include <optional>
#include <set>
#include <tuple>

namespace mha {

/// Shows another observer what it would see of a plan, while more may be computed: where the next
/// layer begins with what this one hands on, resid_post of every query of the plan's batch items.
class PassObserver : public Observer {
public:
  /// Plan and observer outlive this; the layer may go.
  PassObserver(const Layer& layer, const Plan& plan, Observer& observer);

  /// What is to be computed.
  const Plan& plan() const { return whole_ ? *whole_ : asked_; }

  StageSet wants() const override { return plan().wanted; }
  void observe(const Slice& block) override;

private:
  void join_pass(const Layer& layer);
  bool was_asked(const Slice& block) const;

  const Plan& asked_;
  Observer& observer_;
  std::shared_ptr<LayerPass> pass_; ///< null: nothing is handed on
  std::optional<Plan> whole_;
  std::optional<Progress> progress_;
  bool all_asked_ = true; ///< the plan asks for every place of what it wants
  /// Else for these: stage, batch item, head, block of queries (0 for keys and values).
  std::set<std::tuple<Stage, std::size_t, std::size_t, std::size_t>> places_;
};

} // namespace mha
