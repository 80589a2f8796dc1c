#pragma once
// Tries changes on one stage of a layer, alone and together.

#include <mha/compare/precision.hpp>
#include <mha/compare/rounding.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/targets.hpp>

#include <map>

namespace mha {

/// The relative error of a stage stored in a short type; 0 for other types.
double storing_error(std::optional<DType> half);
using Changes = std::vector<const Change*>;
/// The changes in the order in which they act.
Changes sorted(Changes changes);
/// The changes with an edit query by query, in order; those with `undo`, which only edit the last
/// stage, come last.
Changes row_edits_of(Changes ordered);
/// Prepares a copy of a layer for edits: it reads the model's packed weights but adds none to them.
void detach_kept_weights(Layer& layer);
/// The layer with these changes.
Layer changed(Layer layer, const Changes& changes);

/// Computes one stage from given inputs under changes. For larger layers, screening computes only
/// some queries, and what the changes do not affect only once.
class Trials {
public:
  /// `inputs` are the given stages, in the form of Layer::given; `off` is the relative distance of
  /// each from the reference; `always` are changes made in every trial.
  Trials(const Layer& layer, const std::map<Stage, Tensor>& inputs, Target target, Changes always,
         std::size_t threads, std::map<Stage, double> off = {});

  /// Whether a change may affect this stage.
  bool concerns(const Change& change) const { return (change.touches & cone_).any(); }

  /// The whole target under changes, in addition to those made always.
  Tensor value(const Changes& changes = {}) const;
  Agreement whole(const Changes& changes = {}) const;
  /// How such a value agrees: it does if every number differs by rounding only.
  Agreement judged(const Tensor& ours, const Changes& changes = {}) const;
  /// Whether such a value differs only by the rounding of the reference's precision.
  bool is_rounding(const Tensor& ours, const Changes& changes = {}) const {
    return is_rounding(ours, changes, target_.theirs);
  }
  /// The same for another form of the reference's value.
  bool is_rounding(const Tensor& ours, const Changes& changes, const Tensor& theirs) const;
  /// The relative error that this rounding usually causes in the target under the changes.
  double usual_rounding(const Changes& changes = {}) const;
  /// How some of the queries agree under changes: faster than the whole, with possibly different
  /// bits.
  Agreement screen(const Changes& changes) const;
  /// On the same queries, the factor by which the difference between two results must be multiplied
  /// to reach the reference from the first.
  double steps_between(const Changes& from, const Changes& to) const {
    return projection(some_theirs_, screened(to), screened(from));
  }
  /// Screens many sets with all threads, after computing what they share.
  std::vector<Agreement> screen(const std::vector<Changes>& sets);

  const Target& target() const { return target_; }

private:
  using Values = std::map<Stage, Tensor>;
  Layer prepared(const Changes& changes) const;
  bool is_of_end() const { return !part_.tokens.empty() || !part_.logits.empty(); }
  Layer screened_ends(const Changes& ordered) const;
  RoundedSteps rounded_steps(const Layer& edited) const;
  double usual_off(Stage stage, const RoundedSteps& steps) const;
  Tensor screened(const Changes& changes) const;
  Tensor target_in(Layer edited, std::size_t threads) const;
  bool is_kept(const Change& change, const Layer& edited) const;
  Changes in_order(const Changes& changes) const;
  Values computed(const Change* change) const;

  Layer layer_;
  Target target_;
  Tensor some_theirs_;
  std::vector<std::size_t> rows_; ///< queries computed in screening; empty: all
  EndSample part_;                ///< the part of the model's end used in screening
  Tensor own_logits_;             ///< all logits of its tokens, if only some are used
  Changes always_;
  StageSet cone_, inputs_;
  std::map<Stage, double> off_;
  std::size_t threads_;
  /// q, k, v and their forms under each change; nullptr: without a change.
  std::map<const Change*, Values> kept_;
};

} // namespace mha
