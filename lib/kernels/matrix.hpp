#pragma once
// A row-major matrix in somebody else's memory.

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mha {

/// `rows` × `cols` elements, row i at data + i · stride.
template <class T> struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0;
  std::size_t stride = 0;

  T* row(std::size_t i) const { return data + i * stride; }
  /// Rows [first, first + count).
  Matrix rows_from(std::size_t first, std::size_t n) const { return {row(first), n, cols, stride}; }
  /// Columns [first, first + count).
  Matrix cols_from(std::size_t first, std::size_t n) const {
    return {data + first, rows, n, stride};
  }
  operator Matrix<const T>() const { return {data, rows, cols, stride}; }
};

/// Whether no element is NaN or infinite.
template <class T> bool all_finite(Matrix<const T> m) {
  for (std::size_t i = 0; i < m.rows; ++i)
    if (!std::all_of(m.row(i), m.row(i) + m.cols, [](T value) { return std::isfinite(value); }))
      return false;
  return true;
}

} // namespace mha
