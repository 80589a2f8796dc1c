#pragma once
// The steps of rows around attention: norms, sums, what bends a feed-forward's numbers.

#include <mha/kernels/matrix.hpp>
#include <mha/layer/block.hpp>

namespace mha {

/// The norm with its weight and bias in `dtype`.
Norm in_precision(const Norm& norm, DType dtype);
/// y = norm(x), row by row; no norm hands x on. The norm's weight is in T.
template <class T> void norm_rows(const Norm& norm, Matrix<const T> x, Matrix<T> y);

/// y = x + other.
template <class T> void add_rows(Matrix<const T> x, Matrix<const T> other, Matrix<T> y);

/// y = act(x), row by row.
template <class T> void activate(Activation activation, Matrix<const T> x, Matrix<T> y);

} // namespace mha
