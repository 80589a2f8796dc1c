#pragma once
// The verdict of a comparison. Exit code 0 of `diff` is a promise; these are its conditions.

#include <mha/compare/diff.hpp>
#include <mha/load/load.hpp>

namespace mha {

enum class Verdict : std::uint8_t {
  equal,      ///< the whole reference was compared, and agrees
  incomplete, ///< all compared stages agree, but some were not compared, or only inputs were
  differs,    ///< a number or a stage's shape differs
};
/// "equal", "differs", "incomplete".
std::string_view name_of(Verdict verdict);
/// The exit code: 0, 2, 1.
int exit_code_of(Verdict verdict);
/// The verdict of two comparisons together: differs wins over incomplete, incomplete over equal.
Verdict worse_of(Verdict a, Verdict b);

/// The result of a layer's comparison.
struct Outcome {
  Verdict verdict = Verdict::equal;
  std::vector<Stage> compared; ///< in the order of the computation, without same tensors
  std::vector<NotCompared> not_compared;
  bool only_inputs = false; ///< no compared stage was computed here

  /// Another check of the same numbers found a difference, such as the form of GELU.
  void differ() { verdict = Verdict::differs; }
};

/// The required coverage of a comparison.
struct Demand {
  bool whole = false;        ///< a model's pass from a text: nothing is given
  std::vector<Stage> stages; ///< asked for by name; none means all stages of the reference
};

/// Marks the stages of `found` that agree and are the same tensor of the same file on both sides.
void mark_same_tensors(const LoadedLayer& loaded, Diff& found);
/// Judges a comparison whose same tensors are marked.
Outcome outcome_of(const Layer& layer, const Reference& reference, const Diff& found,
                   const Demand& demand);

/// Reduces a reference that is not settled to the stages that were asked for, including those of
/// another shape. Returns the stages that it does not have at all.
std::vector<Stage> choose(Reference& reference, const std::vector<Stage>& stages);

} // namespace mha
