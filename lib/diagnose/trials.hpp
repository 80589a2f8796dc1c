#pragma once
// Changes tried on one stage of a layer, alone and together.

#include <mha/compare/precision.hpp>
#include <mha/compare/rounding.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/targets.hpp>

#include <map>

namespace mha {

/// What storing in a short type does to a stage, relative to it; 0 for other types.
double storing_error(std::optional<DType> half);
using Changes = std::vector<const Change*>;
/// In the order in which they act.
Changes sorted(Changes changes);
/// Those of them, in order, that edit query by query: what is made of the last stage alone (its
/// undo tells) comes last, whatever else the same change touches.
Changes row_edits_of(Changes ordered);
/// Makes a copy of a layer ready to be edited: of packed weights it reads those that the model has,
/// and adds none to them.
void detach_kept_weights(Layer& layer);
/// The layer with all of them made.
Layer changed(Layer layer, const Changes& changes);

/// One stage, computed from given inputs under changes. Small layers are computed as a whole; of
/// others, screening computes a few queries, and what the changes leave as it is only once.
class Trials {
public:
  /// `inputs`: stages whose values are given, in the form of Layer::given; `off`: by how much they
  /// are other numbers than the reference's, relative to each stage; `always`: changes that every
  /// trial makes.
  Trials(const Layer& layer, const std::map<Stage, Tensor>& inputs, Target target, Changes always,
         std::size_t threads, std::map<Stage, double> off = {});

  /// Whether a change has an effect on this step.
  bool concerns(const Change& change) const { return (change.touches & cone_).any(); }

  /// The target under no change, but those made always: all of it.
  Tensor value(const Changes& changes = {}) const;
  Agreement whole(const Changes& changes = {}) const;
  /// How such a value agrees: where all that it leaves is rounding, number by number.
  Agreement judged(const Tensor& ours, const Changes& changes = {}) const;
  /// Whether what such a value leaves is what implementations in the reference's precision round.
  bool is_rounding(const Tensor& ours, const Changes& changes = {}) const {
    return is_rounding(ours, changes, target_.theirs);
  }
  /// The same beside another form of what the reference has.
  bool is_rounding(const Tensor& ours, const Changes& changes, const Tensor& theirs) const;
  /// How far such rounding takes the target under the changes as a rule, relative to it.
  double usual_rounding(const Changes& changes = {}) const;
  /// On some of the queries, which is quick, and whose bits need not be the whole's.
  Agreement screen(const Changes& changes) const;
  /// On the same queries, how many times the difference between what some changes give and what
  /// others do takes the first to the reference.
  double steps_between(const Changes& here, const Changes& there) const {
    return projection(some_theirs_, screened(there), screened(here));
  }
  /// The same as screen for many, with as many threads as there are; what they share is computed
  /// first.
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
  bool is_kept(const Change& change, const Layer& edited) const;
  Changes in_order(const Changes& changes) const;
  Values computed(const Change* change) const;

  Layer layer_;
  Target target_;
  Tensor some_theirs_;
  std::vector<std::size_t> rows_; ///< queries that screening computes; empty: all
  EndSample part_;                ///< what screening looks at of the model's end
  Tensor own_logits_;             ///< all logits of its tokens, where it looks at some
  Changes always_;
  StageSet cone_, inputs_;
  std::map<Stage, double> off_;
  std::size_t threads_;
  std::map<const Change*, Values>
      kept_; ///< q, k, v and their forms under each change; nullptr: none
};

} // namespace mha
