#pragma once
// Inputs that hold NaN or infinity.

#include <mha/layer/layer.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <vector>

namespace mha {

/// "1 NaN and 2 infinite of 8 numbers, the first at [0, 3]"; "" where all numbers are finite.
/// Without a batch axis of the caller's, the first axis is left out of the place.
std::string not_finite_in(const Tensor& tensor, bool has_batch = true);

/// A warning for each of X, X_k, X_v, the projections and the stages with columns that are given
/// whose numbers are not all finite: "X has 1 NaN of 8 numbers, the first at [0, 3]: …". Masks,
/// maps and rows of scores may be infinite, and a map's masked rows NaN.
std::vector<Note> not_finite_inputs(const Layer& layer);

} // namespace mha
