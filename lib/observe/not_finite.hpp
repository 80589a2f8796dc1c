#pragma once
// Inputs that hold NaN or infinity.

#include <mha/layer/layer.hpp>
#include <mha/system/note.hpp>

#include <vector>

namespace mha {

/// A warning for each of X, X_k, X_v, the projections and the stages with columns that are given
/// whose numbers are not all finite: "X has 1 NaN of 8 numbers, the first at [0, 3]: …". Masks,
/// maps and rows of scores may be infinite, and a map's masked rows NaN.
std::vector<Note> not_finite_inputs(const Layer& layer);

} // namespace mha
