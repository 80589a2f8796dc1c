#pragma once
// The activation of a feed-forward.

#include <mha/kernels/matrix.hpp>
#include <mha/layer/block.hpp>

namespace mha {

/// y = act(x), row by row.
template <class T> void activate(Activation activation, Matrix<const T> x, Matrix<T> y);

} // namespace mha
