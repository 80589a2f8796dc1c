#pragma once
// Sums of the residual stream.

#include <mha/kernels/rows.hpp>
#include <mha/schedule/tokens.hpp>

#include <algorithm>

namespace mha {

/// sum = a + b, row by row.
template <class T> void add(Matrix<const T> a, Matrix<const T> b, Matrix<T> sum) {
  for (std::size_t i = 0; i < sum.rows; ++i) {
    std::copy_n(a.row(i), sum.cols, sum.row(i));
    row_add(sum.row(i), b.row(i), sum.cols);
  }
}

} // namespace mha
