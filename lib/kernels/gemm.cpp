#include "kernels/gemm.hpp"

#include "error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/onednn.hpp"
#include "kernels/split.hpp"
#include "kernels/tiled.hpp"

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
    if (routine == Routine::onednn && c.rows > 0 && c.cols > 1 && a.cols > 0)
      return multiply_onednn(a, b, transposed, c, accumulate);
  if constexpr (std::is_same_v<T, float>)
    if (routine == Routine::split)
      return SplitOperand(b, transposed, c.rows, 1).multiply(a, 0, 0, c, accumulate);
  multiply_tiled(kernels<T>(), a, b, transposed, c, accumulate);
}

// Measured on one core of a Sapphire Rapids Xeon in GFLOP/s, ours against oneDNN 2.6's, the best of
// some dozen alternating runs (in brackets: both kept to AVX2):
//   256 × 768 × 768   180, 180  (101, 109)
//   256 × 512 × 64 ᵀ  181, 187  (114, 102)
//   256 × 64 × 512    177, 162   (99, 108)
//   64 × 768 × 768    142, 169
// and from 1024 columns on oneDNN wins up to a tenth. Its first call takes 25 ms: at 10¹¹
// operations, two thirds of a second, a tenth repays that twice; below there is little to win.
constexpr double least_operations = 1e11;

} // namespace

void set_routine(std::optional<Routine> routine) {
  one_for_all = routine;
}

template <> Routine routine_for<float>(std::size_t count, std::size_t rows, std::size_t cols,
                                       std::size_t depth) {
  if (one_for_all == Routine::onednn && cols <= 1) return Routine::ours;
  if (one_for_all) return *one_for_all;
  if (split_pays(rows, cols, depth)) return Routine::split;
  const double operations = 2.0 * static_cast<double>(count) * static_cast<double>(rows) *
                            static_cast<double>(cols) * static_cast<double>(depth);
  return cols > 1 && operations >= least_operations ? Routine::onednn : Routine::ours;
}

template <> Routine routine_for<double>(std::size_t, std::size_t, std::size_t, std::size_t) {
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
