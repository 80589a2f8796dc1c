#pragma once
// Matrices of doubles that own their memory, and their products.

#include <mha/kernels/matrix.hpp>

#include <cstddef>
#include <vector>

namespace mha {

/// rows × cols numbers, row by row.
struct DenseMatrix {
  std::size_t rows = 0, cols = 0;
  std::vector<double> numbers;

  DenseMatrix() = default;
  DenseMatrix(std::size_t r, std::size_t c) : rows(r), cols(c), numbers(r * c) {}

  bool empty() const { return numbers.empty(); }
  double* row(std::size_t i) { return numbers.data() + i * cols; }
  Matrix<const double> view() const { return {numbers.data(), rows, cols, cols}; }
};

/// a b, on the calling thread.
DenseMatrix product(Matrix<const double> a, Matrix<const double> b);
/// a bᵀ, on the calling thread.
DenseMatrix product_with_transpose(Matrix<const double> a, Matrix<const double> b);
/// a b, its rows shared out over threads; the same bits whatever their number.
DenseMatrix product_together(Matrix<const double> a, Matrix<const double> b, std::size_t threads);
DenseMatrix transpose_of(Matrix<const double> matrix);
/// ‖matrix‖_F: the root of the sum of squares.
double frobenius_norm(Matrix<const double> matrix);

} // namespace mha
