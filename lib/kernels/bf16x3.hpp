#pragma once
// Products of float32 matrices on units that multiply bfloat16: every number is the sum of three
// bfloat16, of the nine products of parts six are added up in float32, the other three are below
// its last bit (Henry, Tang, Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations"). The result is nearer to the exact one than a chain
// of multiply-adds in float32, in 0.6 of its time.

#include <mha/kernels/matrix.hpp>
#include <mha/system/memory.hpp>

#include <cstddef>
#include <cstdint>

namespace mha {

/// Whether this machine has such units (AMX), and the system lends them.
bool bf16x3_available();

/// Whether to split for a product of such sizes: they fill cells, and there are rows enough to
/// repay the splitting of op(b).
bool bf16x3_pays(std::size_t rows, std::size_t cols, std::size_t depth);

/// So many rows are split together, from a multiple of it on: one that does not split well takes
/// the others along to the plain path.
inline constexpr std::size_t bf16x3_rows = 32;

/// So many rows are split before they are multiplied: as many as stay in the second cache while the
/// strips of op(b) run by, each of which the rows share.
inline constexpr std::size_t bf16x3_block_rows = 256;

/// Up to this many rows op(b) is split while it is read.
inline constexpr std::size_t bf16x3_as_read = 256;

/// op(b), k × n, split and packed for many products; op is the transposition or nothing. What does
/// not split well (infinities, NaN, extreme sizes) is left to the kernels of dispatch.hpp: whole
/// strips of 32 columns here, 32 rows of a left operand at a time. b must live as long as this.
class Bf16x3Matrix {
public:
  Bf16x3Matrix() = default;
  /// For products of `rows` rows in all: few (bf16x3_as_read) do not repay packing all of b ahead,
  /// then each product splits what it reads.
  Bf16x3Matrix(Matrix<const float> b, bool transposed, std::size_t rows, std::size_t threads);

  /// c = a · op(b)[first_row …, first_col …], or c += it. first_row and first_col are multiples of
  /// 32. An element's bits depend on its row of a, its column of op(b) and first_row alone, as long
  /// as all numbers split well; else also on which rows of a come in one call.
  void multiply(Matrix<const float> a, std::size_t first_row, std::size_t first_col,
                Matrix<float> c, bool accumulate) const;

private:
  /// Of these rows of a strip, how many parts there are that are not all zeros (of bfloat16 and of
  /// zeros, one); 0 where they do not split.
  std::size_t parts(std::size_t strip, std::size_t first_row, std::size_t rows) const;
  /// Packs them, with the same result.
  std::size_t pack(std::size_t first_row, std::size_t rows, std::size_t first_col, std::size_t cols,
                   std::uint16_t* cells) const;
  void multiply_block(Matrix<const float> a, std::size_t first_row, std::size_t first_col,
                      Matrix<float> c, bool accumulate) const;
  std::size_t depth() const { return transposed_ ? b_.cols : b_.rows; }
  Matrix<const float> part(std::size_t first_row, std::size_t rows, std::size_t first_col,
                           std::size_t cols) const;

  Matrix<const float> b_;
  bool transposed_ = false;
  Buffer<std::uint16_t> cells_; ///< none where op(b) is split while it is read
  Buffer<std::uint8_t> parts_;  ///< of each strip's blocks of depth
};

} // namespace mha
