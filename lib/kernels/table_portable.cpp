// The kernels in plain C++, for machines without AVX2: the compiler vectorises what it can. The
// same sums as the other sets', in the same order; products are rounded before they are added
// where the machine has no fused multiply-add (in software it would be a hundred times slower).

#include "kernels/table.hpp"

#include <cmath>
#include <limits>

namespace mha {
namespace {

constexpr std::size_t tile_rows = 4;
template <class T> constexpr std::size_t tile_cols = 32 / sizeof(T);

template <class T> inline T multiply_add(T a, T b, T sum) {
#if defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)
  return std::fma(a, b, sum);
#else
  return a * b + sum;
#endif
}

/// A full tile, its sums in registers.
template <class T> void full_tile(std::size_t depth, const T* a, std::size_t a_stride, const T* b,
                                  std::size_t b_stride, T* c, std::size_t c_stride,
                                  bool accumulate) {
  constexpr std::size_t cols = tile_cols<T>;
  T sum[tile_rows][cols] = {};
  if (accumulate)
    for (std::size_t i = 0; i < tile_rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) sum[i][j] = c[i * c_stride + j];
  for (std::size_t p = 0; p < depth; ++p, a += a_stride, b += b_stride)
    for (std::size_t i = 0; i < tile_rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) sum[i][j] = multiply_add(a[i], b[j], sum[i][j]);
  for (std::size_t i = 0; i < tile_rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) c[i * c_stride + j] = sum[i][j];
}

template <class T> void tile(std::size_t rows, std::size_t cols, std::size_t depth, const T* a,
                             std::size_t a_stride, const T* b, std::size_t b_stride, T* c,
                             std::size_t c_stride, bool accumulate) {
  if (rows == tile_rows && cols == tile_cols<T>)
    return full_tile(depth, a, a_stride, b, b_stride, c, c_stride, accumulate);
  for (std::size_t i = 0; i < rows; ++i) {
    T sum[tile_cols<T>] = {};
    if (accumulate)
      for (std::size_t j = 0; j < cols; ++j) sum[j] = c[i * c_stride + j];
    for (std::size_t p = 0; p < depth; ++p)
      for (std::size_t j = 0; j < cols; ++j)
        sum[j] = multiply_add(a[p * a_stride + i], b[p * b_stride + j], sum[j]);
    for (std::size_t j = 0; j < cols; ++j) c[i * c_stride + j] = sum[j];
  }
}

template <class T> void pack_transposed(const T* source, std::size_t stride, std::size_t rows,
                                        std::size_t depth, T* panel, std::size_t width) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t p = 0; p < depth; ++p) panel[p * width + i] = source[i * stride + p];
}

template <class T> void pack(const T* source, std::size_t stride, std::size_t depth,
                             std::size_t cols, T* panel, std::size_t width) {
  for (std::size_t p = 0; p < depth; ++p)
    for (std::size_t j = 0; j < cols; ++j) panel[p * width + j] = source[p * stride + j];
}

template <class T> T row_max(const T* row, std::size_t n) {
  T largest = -std::numeric_limits<T>::infinity();
  bool has_nan = false;
  for (std::size_t i = 0; i < n; ++i) {
    largest = row[i] > largest ? row[i] : largest;
    has_nan |= row[i] != row[i];
  }
  return has_nan ? std::numeric_limits<T>::quiet_NaN() : largest;
}

template <class T> void row_scale(T* row, std::size_t n, T factor) {
  for (std::size_t i = 0; i < n; ++i) row[i] *= factor;
}

template <class T> void row_add(T* row, const T* other, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) row[i] += other[i];
}

template <class T> void row_subtract(T* row, std::size_t n, T value) {
  for (std::size_t i = 0; i < n; ++i) row[i] -= value;
}

template <class T> void row_divide(T* row, std::size_t n, T divisor) {
  for (std::size_t i = 0; i < n; ++i) row[i] /= divisor;
}

template <class T> T row_sum(const T* row, std::size_t n) {
  constexpr std::size_t lanes = sum_lanes<T>;
  T lane[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) lane[l] += row[i + l];
  for (std::size_t l = 0; i < n; ++i, ++l) lane[l] += row[i];
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

template <class T> T row_exp_sum(T* row, std::size_t n, T shift) {
  for (std::size_t i = 0; i < n; ++i) row[i] = std::exp(row[i] - shift);
  return row_sum(row, n);
}

template <class T> constexpr Kernels<T> table() {
  return {"portable",     tile_rows,  tile_cols<T>, tile<T>,    pack_transposed<T>,
          pack<T>,        row_max<T>, row_scale<T>, row_add<T>, row_subtract<T>,
          row_exp_sum<T>, row_sum<T>, row_divide<T>};
}

} // namespace

constexpr Kernels<float> portable_f32 = table<float>();
constexpr Kernels<double> portable_f64 = table<double>();

} // namespace mha
