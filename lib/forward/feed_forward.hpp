#pragma once
// What bends a feed-forward's numbers.

#include <mha/kernels/matrix.hpp>
#include <mha/layer/block.hpp>

namespace mha {

/// y = act(x), row by row.
template <class T> void activate(Activation activation, Matrix<const T> x, Matrix<T> y);

} // namespace mha
