#pragma once
// Inputs that hold NaN or infinity.

#include <mha/layer/layer.hpp>
#include <mha/observe/summary.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <vector>

namespace mha {

/// "1 NaN and 2 infinite of 8 numbers, the first at [0, 3]"; "" where all numbers are finite.
/// Without a batch axis of the caller's, the first axis is left out of the place. `masks`: of a map
/// or a row, whose −inf are a mask's.
std::string not_finite_in(const Tensor& tensor, bool has_batch = true, bool masks = false);

/// A warning for each input, projection and given stage whose numbers are not all finite: "X has 1
/// NaN of 8 numbers, the first at [0, 3]: …". Masks may be infinite, and maps and rows of given
/// stages −inf, as masks make them.
std::vector<Note> not_finite_inputs(const Layer& layer);

/// "logits: 3 NaN of 8 numbers", of what a whole model's run computed, whose weights are not looked
/// at before; "" where all are numbers, and for infinities in maps and rows, as masks make them.
std::string strange_results(const Layer& layer, Stage stage, const Summary& computed);

} // namespace mha
