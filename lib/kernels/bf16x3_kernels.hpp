#pragma once
// Raw-pointer kernels for products of float32 numbers that are split into bfloat16 parts
// (bf16x3.hpp). Included by the unit that is compiled for them: nothing of the standard library's.

#include <cstddef>
#include <cstdint>

namespace mha {

/// A cell: 32 × 32 numbers, each as three bfloat16. [part][half][16 × 32]: a half has 16 rows of
/// the left operand, or 16 columns of the right one; a line of it 16 pairs of elements k and k + 16
/// of the depth, where the right operand's line is a pair of rows, not of columns.
inline constexpr std::size_t cell_side = 32, cell_parts = 3;
inline constexpr std::size_t cell_size = cell_parts * cell_side * cell_side;

/// Numbers beyond these would lose bits, or become infinite, when they are split and multiplied:
/// the largest of each row of the left operand, and of each column of the right one, must be
/// between (or be 0).
inline constexpr float bf16x3_least_left = 0x1p-60F, bf16x3_least_right = 0x1p-40F;
inline constexpr float bf16x3_most = 0x1p50F;

struct Bf16x3Kernels {
  /// Up to 32 rows of a, `depth` deep, as cells one after another, filled up with zeros (a second
  /// half without rows is left alone). Whether they can be split.
  bool (*pack_left)(const float* a, std::size_t stride, std::size_t rows, std::size_t depth,
                    std::uint16_t* cells);
  /// Likewise up to 32 columns of op(b), stored as columns, or, transposed, as rows.
  bool (*pack_right)(const float* b, std::size_t stride, std::size_t depth, std::size_t cols,
                     std::uint16_t* cells);
  bool (*pack_right_transposed)(const float* b, std::size_t stride, std::size_t depth,
                                std::size_t cols, std::uint16_t* cells);
  /// The calling thread's tile registers, before the first of some products and after the last.
  void (*begin)();
  void (*end)();
  /// c, up to 32 × 32, := or += the product of that many pairs of cells. Of the right ones the
  /// first `right_parts` parts are read: zeros in the others would not change a bit.
  void (*multiply)(const std::uint16_t* left, const std::uint16_t* right, std::size_t cells,
                   std::size_t right_parts, std::size_t rows, std::size_t cols, float* c,
                   std::size_t c_stride, bool accumulate);
  /// As Kernels::multiply_adds: those of float32 numbers that six products of tiles are worth.
  std::size_t (*multiply_adds)(std::size_t rounds, float* sums);
};

#if defined(__x86_64__)
extern const Bf16x3Kernels amx_bf16x3;
#endif

} // namespace mha
