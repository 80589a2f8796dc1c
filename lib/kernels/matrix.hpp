#pragma once
// A row-major matrix in memory that it does not own.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits infinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  for (std::size_t i = 0; i < m.rows; ++i) {
    Bits wrong = 0; // no branch in the loop: it takes several numbers at once
    for (std::size_t j = 0; j < m.cols; ++j)
      wrong |= static_cast<Bits>((std::bit_cast<Bits>(m.row(i)[j]) & infinity) == infinity);
    if (wrong != 0) return false;
  }
  return true;
}

} // namespace mha
