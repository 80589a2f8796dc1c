#pragma once
// Inputs that hold NaN or infinity.

#include <mha/layer/layer.hpp>
#include <mha/observe/summary.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// "1 NaN and 2 infinite of 8 numbers, the first at [0, 3]"; "" where all numbers are finite.
/// Without a batch axis of the caller's, the first axis is left out of the place.
std::string not_finite_in(const Tensor& tensor, bool has_batch = true);
/// The same of a stage's value: the −inf of maps and rows are a mask's.
std::string not_finite_in(Stage stage, const Tensor& value, bool has_batch = true);

/// A warning for each input, projection and given stage whose numbers are not all finite: "X has 1
/// NaN of 8 numbers, the first at [0, 3]: …". Masks may be infinite, and maps and rows of given
/// stages −inf, as masks make them.
std::vector<Note> not_finite_inputs(const Layer& layer);

/// The same of what is made of a layer's stages or weights: "rollout of layer 3: 9 NaN of 9
/// numbers, the first at [0, 0]: …"; none where all numbers are finite.
std::vector<Note> not_finite_result(std::string_view name, const Tensor& result,
                                    bool has_batch = true);

/// The message of not_finite_results() for one stage, of its summary.
Message not_finite_stage(Stage stage, const Summary& computed);

/// "logits: 3 NaN of 8 numbers", of the first of some stages that has any, as a whole model's run
/// computed it, whose weights are not looked at before; "" where all are numbers, for infinities in
/// maps and rows, as masks make them, and of steps of a lone layer. `summary_of(stage)`: of what
/// was computed.
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
