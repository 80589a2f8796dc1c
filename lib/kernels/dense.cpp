#include <mha/kernels/dense.hpp>

#include <mha/kernels/packed.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

constexpr std::size_t rows_of_task = 64;

DenseMatrix multiplied(Matrix<const double> a, Matrix<const double> b, bool b_transposed) {
  DenseMatrix c(a.rows, b_transposed ? b.rows : b.cols);
  if (c.empty()) return c;
  PackedMatrix<double>(Routine::fma, b, b_transposed, a.rows)
      .multiply(a, 0, 0, {c.numbers.data(), c.rows, c.cols, c.cols});
  return c;
}

} // namespace

DenseMatrix product(Matrix<const double> a, Matrix<const double> b) {
  return multiplied(a, b, false);
}

DenseMatrix product_with_transpose(Matrix<const double> a, Matrix<const double> b) {
  return multiplied(a, b, true);
}

DenseMatrix product_together(Matrix<const double> a, Matrix<const double> b, std::size_t threads) {
  DenseMatrix c(a.rows, b.cols);
  if (c.empty()) return c;
  const PackedMatrix<double> packed(Routine::fma, b, false, a.rows, threads);
  const Matrix<double> to{c.numbers.data(), c.rows, c.cols, c.cols};
  parallel_for((a.rows + rows_of_task - 1) / rows_of_task, threads, [&](std::size_t i) {
    const std::size_t first = i * rows_of_task, count = std::min(rows_of_task, a.rows - first);
    packed.multiply(a.rows_from(first, count), 0, 0, to.rows_from(first, count));
  });
  return c;
}

DenseMatrix transpose_of(Matrix<const double> matrix) {
  DenseMatrix to(matrix.cols, matrix.rows);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.cols; ++j) to.row(j)[i] = matrix.row(i)[j];
  return to;
}

double frobenius_norm(Matrix<const double> matrix) {
  double sum = 0;
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.cols; ++j) sum += matrix.row(i)[j] * matrix.row(i)[j];
  return std::sqrt(sum);
}

} // namespace mha
