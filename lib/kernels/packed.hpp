#pragma once
// The right-hand side of many products, prepared once: weights, one head's keys, one head's values.

#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/matrix.hpp>
#include <mha/kernels/routine.hpp>
#include <mha/system/memory.hpp>

namespace mha {

/// op(b), k × n, for products a · op(b) that are `rows` rows in all. Ours reads it packed where the
/// rows repay that. b must live as long as this does.
template <class T> class PackedMatrix {
public:
  PackedMatrix() = default;
  /// Whether a product of so many rows reads b in place, without a copy.
  static bool reads_in_place(Routine routine, bool transposed, std::size_t rows);
  /// Prepares b (k × n), or its transpose (b is n × k), on up to `threads` threads.
  PackedMatrix(Routine routine, Matrix<const T> b, bool transposed, std::size_t rows,
               std::size_t threads = 1);

  /// c = a · op(b)[first_row …, first_col …], or c += it: as many rows as a has columns, as many
  /// columns as c has. first_col is a multiple of column_step. Zeros where a has no columns.
  /// Infinities and NaN propagate as in IEEE 754: nothing is skipped. Uses the calling thread only.
  /// Throws Error where the sizes do not fit together.
  void multiply(Matrix<const T> a, std::size_t first_row, std::size_t first_col, Matrix<T> c,
                bool accumulate = false) const;

  /// Whether b itself is not read any more.
  bool is_packed() const { return packed_.data() != nullptr; }

  /// Columns may be entered at multiples of this.
  static constexpr std::size_t column_step = 64;

private:
  Routine routine_ = Routine::fma;
  Matrix<const T> b_;
  bool transposed_ = false;
  Buffer<T> packed_;
  Bf16x3Matrix split_;
};

} // namespace mha
