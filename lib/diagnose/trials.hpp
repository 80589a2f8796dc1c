#pragma once
// Changes tried on one stage of a layer, alone and together.

#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/some_tokens.hpp>

#include <map>

namespace mha {

/// What a stage is compared with.
struct Target {
  Stage stage = Stage::output;
  Tensor theirs;        ///< in the form of Layer::given, in the layer's precision
  double tolerance = 0; ///< see agreement_of
  double rounded = 0;   ///< what storing did to them, relative to each number
  /// The short type that the reference computes in; nothing: none.
  std::optional<DType> half;
};

/// Whether a reference of this type is in half precision: float16 or bfloat16.
bool is_short(DType dtype);
/// What storing in a short type does to a stage, relative to it; 0 for other types.
double storing_error(std::optional<DType> half);

using Changes = std::vector<const Change*>;
/// In the order in which they act.
Changes sorted(Changes changes);
/// Those of them, in order, that edit query by query: what is made of the last stage alone (its
/// undo tells) comes last, whatever else the same change touches.
Changes row_edits_of(Changes ordered);
/// Makes a copy of a layer ready to be edited: it neither counts as the layer nor hands its stream
/// on, and of packed weights it reads those that the model has, and leaves none behind.
void set_apart(Layer& layer);
/// The layer with all of them made.
Layer changed(Layer layer, const Changes& changes);

/// One stage, computed from given inputs under changes. Small layers are computed as a whole; of
/// others, screening computes a few queries, and what the changes leave as it is only once.
class Trials {
public:
  /// `inputs`: stages whose values are given, in the form of Layer::given, `rounded` to so much,
  /// relative to each number; `always`: changes that every trial makes.
  Trials(const Layer& layer, const std::map<Stage, Tensor>& inputs, Target target, Changes always,
         std::size_t threads, double rounded = 0);

  /// Whether a change has an effect on this step.
  bool concerns(const Change& change) const { return (change.touches & cone_).any(); }

  /// What rounding of the inputs may do to the target under the changes, relative to it: it is
  /// computed again from inputs that are off by a unit in the last place.
  double rounding(const Changes& changes) const;

  /// The target under no change, but those made always: all of it.
  Tensor value(const Changes& changes = {}) const;
  Agreement whole(const Changes& changes = {}) const;
  /// How such a value agrees; a difference that rounding of the inputs may make is none.
  Agreement judged(const Tensor& ours, const Changes& changes = {}) const;
  /// What computing in the reference's short type makes of the target under the changes: how far
  /// that is from the target computed as the layer is. On some of the queries where screening is.
  Agreement half_noise(const Changes& changes = {}) const;
  /// Whether a difference is of the size of that rounding.
  bool is_half_noise(const Agreement& difference, const Changes& changes = {}) const;
  /// On some of the queries, which is quick, and whose bits need not be the whole's.
  Agreement screen(const Changes& changes) const;
  /// The same for many, with as many threads as there are; what they share is computed first.
  std::vector<Agreement> screen(const std::vector<Changes>& sets);

  const Target& target() const { return target_; }

private:
  using Values = std::map<Stage, Tensor>;
  Layer prepared(const Changes& changes) const;
  bool is_of_end() const { return !part_.tokens.empty() || !part_.logits.empty(); }
  Layer screened_ends(const Changes& ordered) const;
  Layer in_half(const Changes& changes) const;
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
  double rounded_;
  std::size_t threads_;
  std::map<const Change*, Values>
      kept_; ///< q, k, v and their forms under each change; nullptr: none
};

} // namespace mha
