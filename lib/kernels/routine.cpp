#include <mha/kernels/product.hpp>

#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/tiled.hpp>
#include <mha/system/error.hpp>

#include <type_traits>

namespace mha {
namespace {

std::optional<Routine> one_for_all; // for tests

/// What both products share: op(b) is k × n.
template <class T> void multiply_any(Routine routine, Matrix<const T> a, Matrix<const T> b,
                                     bool transposed, Matrix<T> c, bool accumulate) {
  const std::size_t b_depth = transposed ? b.cols : b.rows, b_cols = transposed ? b.rows : b.cols;
  if (a.cols != b_depth || c.rows != a.rows || c.cols != b_cols)
    fail("cannot multiply {} × {} by {} × {} into {} × {}", a.rows, a.cols, b_depth, b_cols, c.rows,
         c.cols);
  if constexpr (std::is_same_v<T, float>)
    if (routine == Routine::bf16x3)
      return Bf16x3Matrix(b, transposed, c.rows, 1).multiply(a, 0, 0, c, accumulate);
  multiply_tiled(kernels<T>(), a, b, transposed, c, accumulate);
}

} // namespace

void set_routine(std::optional<Routine> routine) {
  one_for_all = routine;
}

template <> Routine routine_for<float>(std::size_t rows, std::size_t cols, std::size_t depth) {
  if (one_for_all) return *one_for_all;
  return bf16x3_pays(rows, cols, depth) ? Routine::bf16x3 : Routine::ours;
}

template <> Routine routine_for<double>(std::size_t, std::size_t, std::size_t) {
  return Routine::ours;
}

template <class T>
void multiply(Routine routine, Matrix<const T> a, Matrix<const T> b, Matrix<T> c, bool accumulate) {
  multiply_any(routine, a, b, false, c, accumulate);
}

template <class T> void multiply_transposed(Routine routine, Matrix<const T> a, Matrix<const T> b,
                                            Matrix<T> c, bool accumulate) {
  multiply_any(routine, a, b, true, c, accumulate);
}

template void multiply(Routine, Matrix<const float>, Matrix<const float>, Matrix<float>, bool);
template void multiply(Routine, Matrix<const double>, Matrix<const double>, Matrix<double>, bool);
template void multiply_transposed(Routine, Matrix<const float>, Matrix<const float>, Matrix<float>,
                                  bool);
template void multiply_transposed(Routine, Matrix<const double>, Matrix<const double>,
                                  Matrix<double>, bool);

} // namespace mha
