#pragma once
// Judges changes at one stage. They explain it if the remaining difference is rounding; for a
// reference in half precision they must also remove most of the difference.

#include <mha/diagnose/trials.hpp>

namespace mha {

/// Theirs, with a mask constant replaced by −∞ where ours is −∞, so that later steps treat a fully
/// masked row as ours.
Tensor with_infinities(Stage stage, const Tensor& ours, const Tensor& theirs);

/// The number of changes with a fitted number.
std::size_t fitted_in(const Changes& changes);

/// Judges sets of changes at one stage. The trials must outlive it.
class StageJudge {
public:
  explicit StageJudge(const Trials& trials) : trials_(trials) {}

  /// Whether a set with this screening result is worth computing as a whole.
  bool is_likely(const Agreement& screened) const;
  /// The relative error that a set leaves if it explains the stage, else nothing.
  std::optional<double> left_by(const Changes& changes) const;
  /// Whether a set that leaves the error `left` is as good as the best, which leaves `least`.
  bool is_as_good(double left, double least) const;
  /// Whether the sets found leave so much that a fitted number may explain more.
  bool may_fit_better(const std::vector<Changes>& found) const;
  /// The sets that are as good as the closest.
  std::vector<Changes> closest_of(std::vector<Changes> found) const;
  /// Whether a set improves hardly more than one row. If two keys are nearly equal, rounding
  /// decides which one a query reads, and any small change of the scores may change that.
  bool helps_one_row(const Changes& changes) const;
  /// The changes, screened alone, whose effect is visible despite the rounding of a stage in half
  /// precision, closest first. `ours` is the stage without changes.
  std::vector<Changes> seen_through_rounding(const Tensor& ours, const Changes& candidates,
                                             const std::map<const Change*, Agreement>& alone) const;

private:
  std::optional<double> left_in_half(const Changes& changes) const;
  bool in_half() const { return trials_.target().half.has_value(); }
  const Agreement& unchanged() const;
  double most_left() const;

  const Trials& trials_;
  mutable std::optional<Agreement> unchanged_; ///< screening without changes
  /// The most that an explanation may leave of numbers in a short type.
  mutable std::optional<double> most_left_;
};

/// How a stage of the reference differs from ours without an effect: "equal up to the factor
/// 0.125", "equal up to the order of the dimensions in each head". "" if it differs in another way
/// or the stage is neither scores nor a form of q or k. `ours` has the form of Layer::given. The
/// trials of the stage judge the remaining difference. `tolerance`: how close columns must be to be
/// compared.
std::string harmless_difference(const Layer& layer, const Trials& trials, const Tensor& ours,
                                double tolerance);

/// "equal up to the order of the heads: 2, 0, 1", where theirs has the heads in another order than
/// ours; or "". It has no effect only if a later stage has them joined.
std::string heads_in_another_order(const Layer& layer, const Trials& trials, const Tensor& ours);

} // namespace mha
