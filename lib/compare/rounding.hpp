#pragma once
// Rounding errors of a layer's stages: the most that a port in half precision may be off by.

#include <mha/layer/layer.hpp>

#include <map>
#include <vector>

namespace mha {

/// The largest |x − y| of each stage, x computed in the layer's precision, y with its tensors and
/// every step rounded to `to`: the error of each step and its growth along the chain. Steps begin
/// at the stages that the layer is given. Where `to` is no coarser than the layer's own type, x is
/// computed in float64. Infinite and not-a-number elements are left out. Stages that cannot be
/// computed are not in the result; nor is any of a layer whose maps would take too much memory.
std::map<Stage, double> rounding_errors(const Layer& layer, const std::vector<Stage>& stages,
                                        DType to, std::size_t threads);

/// The root of the mean square of the finite elements but mask constants (−1e4 and less).
double root_mean_square(const Tensor& tensor);

} // namespace mha
