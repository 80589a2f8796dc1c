#pragma once
// Verdicts on changes at one stage: they explain it if what they leave is within its precision's
// rounding, and, against a reference in half precision, if they take most of the difference away.

#include <mha/diagnose/trials.hpp>

namespace mha {

/// Theirs, with −∞ where it is ours and they have a constant of masks: a row that hides everything
/// is one of ours for the steps after it, too.
Tensor with_infinities(Stage stage, const Tensor& ours, const Tensor& theirs);

/// How many of them have a fitted number.
std::size_t fitted_in(const Changes& changes);

/// The verdicts on sets of changes at one stage. The trials outlive it.
class StageJudge {
public:
  explicit StageJudge(const Trials& trials) : trials_(trials) {}

  /// Whether a set that was screened so is worth computing as a whole.
  bool is_likely(const Agreement& screened) const;
  /// What a set leaves of the stage, relative to it, where it explains it; else nothing.
  std::optional<double> left_by(const Changes& changes) const;
  /// Whether a set that leaves this much explains as much as one that leaves the least.
  bool is_as_good(double left, double least) const;
  /// Whether the sets that were found leave so much that a fitted number may be meant.
  bool may_fit_better(const std::vector<Changes>& found) const;
  /// Without those that leave more than the closest.
  std::vector<Changes> closest_of(std::vector<Changes> found) const;
  /// Whether a set makes little better but one row: where two keys are nearly equal, rounding
  /// decides which of them a query reads, and what moves the scores a little decides otherwise.
  bool helps_one_row(const Changes& changes) const;
  /// Of changes that were screened alone, those that are seen through the rounding of a stage in
  /// half precision, the nearest first. `ours`: the stage as it is.
  std::vector<Changes> seen_through_rounding(const Tensor& ours, const Changes& candidates,
                                             const std::map<const Change*, Agreement>& alone) const;

private:
  std::optional<double> left_in_half(const Changes& changes) const;
  bool in_half() const { return trials_.target().half.has_value(); }
  const Agreement& unchanged() const;
  double most_left() const;

  const Trials& trials_;
  mutable std::optional<Agreement> unchanged_; ///< the stage without a change, by screening
  mutable std::optional<double> most_left_;    ///< by an explanation, of numbers in a short type
};

/// How a stage of another implementation differs from ours where that has no effect by itself:
/// "equal up to the factor 0.125", "equal up to the order of the dimensions in each head". "" where
/// it differs in another way, or the stage is none of q, k, their forms and scores. `ours` in the
/// form of Layer::given; what is left is judged by the trials of the stage. `tolerance`: columns
/// that are as near are looked at.
std::string harmless_difference(const Layer& layer, const Trials& trials, const Tensor& ours,
                                double tolerance);

} // namespace mha
