#pragma once
// NaN and infinity in inputs and results.

#include <mha/layer/layer.hpp>
#include <mha/observe/summary.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// "1 NaN and 2 infinite of 8 numbers, the first at [0, 3]"; "" if all numbers are finite. Without
/// `has_batch`, the place leaves out the first axis.
std::string not_finite_in(const Tensor& tensor, bool has_batch = true);
/// The same for a stage's value: −inf in maps and rows does not count, since masks make it.
std::string not_finite_in(Stage stage, const Tensor& value, bool has_batch = true);

/// A warning for each input, projection and given stage whose numbers are not all finite: "X has 1
/// NaN of 8 numbers, the first at [0, 3]: …". Masks may be infinite, and −inf may be in given maps
/// and rows.
std::vector<Note> not_finite_inputs(const Layer& layer);

/// The same for a result of a layer's stages or weights: "rollout of layer 3: 9 NaN of 9 numbers,
/// the first at [0, 0]: …"; none if all numbers are finite.
std::vector<Note> not_finite_result(std::string_view name, const Tensor& result,
                                    bool has_batch = true);

/// The message of not_finite_results() for one stage, by its summary.
Message not_finite_stage(Stage stage, const Summary& computed);

/// "logits: 3 NaN of 8 numbers" for the first stage with NaN or infinity in a whole model's run,
/// which does not check weights first; else "". Infinities in maps and rows do not count, since
/// masks make them, nor do steps of a lone layer. `summary_of(stage)` returns the summary of the
/// computed stage.
template <class Stages, class SummaryOf>
Message not_finite_results(const Layer& layer, const Stages& stages, const SummaryOf& summary_of) {
  const bool of_steps = layer.block || layer.ends;
  for (const Stage stage : stages) {
    if (!of_steps && !is_derived(stage)) continue;
    if (const Message found = not_finite_stage(stage, summary_of(stage)); !found.empty())
      return found;
  }
  return "";
}

} // namespace mha
