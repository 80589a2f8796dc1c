#pragma once
// The functions of one row of scores. Each gives the same bits for the same row on one machine; the
// instruction set is chosen at run time, the order of every sum depends on the row's length alone.

#include <mha/kernels/dispatch.hpp>
#include <mha/maths/functions.hpp>

#include <algorithm>
#include <cstddef>

namespace mha {

/// The largest element; −inf for n = 0; NaN if any element is NaN.
template <class T> T row_max(const T* row, std::size_t n) {
  return kernels<T>().row_max(row, n);
}
/// row · factor.
template <class T> void row_scale(T* row, std::size_t n, T factor) {
  kernels<T>().row_scale(row, n, factor);
}
/// row + other.
template <class T> void row_add(T* row, const T* other, std::size_t n) {
  kernels<T>().row_add(row, other, n);
}
/// row − value.
template <class T> void row_subtract(T* row, std::size_t n, T value) {
  kernels<T>().row_subtract(row, n, value);
}
/// row := exp(row · factor − shift), within 2 units in the last place of the exponential of the
/// rounded difference (scaling and subtracting first gives the same bits); returns the sum.
/// exp(−inf) = 0, exp(NaN) = NaN, overflow gives inf, results below the smallest normal may be
/// subnormal or correctly rounded, never flushed by more than 2 ulp of the smallest normal.
template <class T> T row_exp_sum(T* row, std::size_t n, T shift, T factor = 1) {
  return kernels<T>().row_exp_sum(row, n, shift, factor);
}
/// The sum of a row, associated as row_exp_sum associates it.
template <class T> T row_sum(const T* row, std::size_t n) {
  return kernels<T>().row_sum(row, n);
}
/// row / divisor, correctly rounded.
template <class T> void row_divide(T* row, std::size_t n, T divisor) {
  kernels<T>().row_divide(row, n, divisor);
}
/// Sums of a row of weights, none of them negative, that measures are made of. NaN in `sum` if an
/// element is.
template <class T> RowSums row_sums(const T* row, std::size_t n, T uniform) {
  return kernels<T>().row_sums(row, n, uniform);
}
/// row, no element beyond ± limit; NaN stays.
template <class T> void row_clip(T* row, std::size_t n, T limit) {
  for (std::size_t i = 0; i < n; ++i) row[i] = std::clamp(row[i], -limit, limit);
}
/// cap · tanh(row / cap).
template <class T> void row_softcap(T* row, std::size_t n, T cap) {
  maths::tanh_row(row, n, cap);
  row_scale(row, n, cap);
}

} // namespace mha
