#pragma once
// Our own product: blocks that fit the caches, tiles that fit the registers.

#include <mha/kernels/matrix.hpp>
#include <mha/kernels/simd/table.hpp>

namespace mha {

/// Rows [first_row, first_row + rows) and columns [first_col, first_col + cols) of op(b), as b has
/// them; op is the transposition or nothing.
template <class T> Matrix<const T> part_of(Matrix<const T> b, bool transposed,
                                           std::size_t first_row, std::size_t rows,
                                           std::size_t first_col, std::size_t cols) {
  return transposed ? b.rows_from(first_col, cols).cols_from(first_row, rows)
                    : b.rows_from(first_row, rows).cols_from(first_col, cols);
}

/// c = a · op(b), or c += a · op(b), by the kernels of one instruction set; op is the transposition
/// or nothing. Each element is one chain of multiply-adds over k = 0, 1, …, from 0 or from c, so
/// its bits depend on its own row of a and column of op(b) alone.
template <class T> void multiply_tiled(const Kernels<T>& kernels, Matrix<const T> a,
                                       Matrix<const T> b, bool transposed, Matrix<T> c,
                                       bool accumulate);

/// c = a · bᵀ of a b in bfloat16, by its bits, which is converted where it is packed: for up to
/// `most_bf16_rows` rows, which use a strip once. The same chains as of the converted b.
inline constexpr std::size_t most_bf16_rows = 256;
void multiply_bf16(const Kernels<float>& kernels, Matrix<const float> a,
                   Matrix<const std::uint16_t> b, Matrix<float> c);

/// op(b) of a product packed whole, once for many products: strips of strip_cols columns, each as
/// deep as b. `packed` has packed_size elements.
template <class T>
std::size_t packed_size(const Kernels<T>& kernels, std::size_t depth, std::size_t cols);
template <class T> void pack_whole(const Kernels<T>& kernels, Matrix<const T> b, bool transposed,
                                   std::size_t first_strip, std::size_t strips, T* packed);

/// c = a · b, or c += a · b, where b is rows [first_row, first_row + a.cols) and columns
/// [first_col, first_col + c.cols) of a packed operand `depth` deep; first_col is a multiple of
/// strip_cols. The same chains as multiply_tiled.
template <class T> void multiply_packed(const Kernels<T>& kernels, Matrix<const T> a,
                                        const T* packed, std::size_t depth, std::size_t first_row,
                                        std::size_t first_col, Matrix<T> c, bool accumulate);

} // namespace mha
