#pragma once
// A place in a tensor of a layer: W_q[1,*,0] is column 0 of head 1, X[*,2,0] a number of token 2.

#include <mha/layer/names.hpp>
#include <mha/layer/stage_place.hpp>

#include <array>

namespace mha {

/// The positions of a place, and where the numbers of its axes are: batch, heads, rows, columns.
struct TensorPlace {
  PlaceAxes axes;
  std::array<std::size_t, 4> counts{1, 1, 1, 1};
  std::array<std::size_t, 4> strides{}; ///< in numbers; 0 of an axis that the tensor does not have
};

/// Where a tensor of the layer has the place. Throws Error, which begins with `where`, where it has
/// no such place.
TensorPlace place_in(const StagePlace& written, const TensorInfo& info, const Layer& layer,
                     const Message& where);

/// What a patch of the tensor changes there.
ResolvedEdit patch_at(const TensorPlace& place);
/// Changes the numbers at the place; the tensor and the patch's value have one type, float32 or
/// float64.
void apply(const ResolvedEdit& patch, const TensorPlace& place, Tensor& tensor);

} // namespace mha
