#pragma once
// A row-major matrix in somebody else's memory.

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

} // namespace mha
