#pragma once
// The verdict of a comparison: exit code 0 of `diff` is a promise, and this is what it takes.

#include <mha/compare/diff.hpp>
#include <mha/load/load.hpp>

namespace mha {

enum class Verdict : std::uint8_t {
  equal,      ///< everything that the reference has of the layer was compared, and agrees
  incomplete, ///< what was compared agrees, but it is not all, or it is the input alone
  differs,    ///< a number, or a stage's shape
};
/// "equal", "differs", "incomplete".
std::string_view name_of(Verdict verdict);
/// The exit code: 0, 2, 1.
int exit_code_of(Verdict verdict);
/// Of two comparisons together: a difference wins, then what is missing.
Verdict worse_of(Verdict a, Verdict b);

/// What a layer's comparison comes to.
struct Outcome {
  Verdict verdict = Verdict::equal;
  std::vector<Stage> compared; ///< in the order of the computation; none that is the same tensor
  std::vector<NotCompared> not_compared;
  bool only_inputs = false; ///< nothing that was compared was computed here

  /// Other readers of the same numbers found a difference, such as the form of GELU.
  void differ() { verdict = Verdict::differs; }
};

/// How much a comparison has to cover.
struct Demand {
  bool whole = false;        ///< of a model's pass from a text on: nothing is given
  std::vector<Stage> stages; ///< asked for by name; none: all that the reference has
};

/// Marks the stages of `found` that are one tensor of one file on both sides and agree.
void mark_same_tensors(const LoadedLayer& loaded, Diff& found);
/// Judges a comparison whose same tensors are marked.
Outcome outcome_of(const Layer& layer, const Reference& reference, const Diff& found,
                   const Demand& demand);

/// Leaves of a reference that is not settled the stages that were asked for; with what of them it
/// has in another shape. Hands back those that it does not have at all.
std::vector<Stage> choose(Reference& reference, const std::vector<Stage>& stages);

} // namespace mha
