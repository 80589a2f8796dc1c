#include <mha/kernels/rows.hpp>

#include <mha/kernels/dispatch.hpp>

#include <cmath>

namespace mha {

template <class T> T row_max(const T* row, std::size_t n) {
  return kernels<T>().row_max(row, n);
}
template <class T> void row_scale(T* row, std::size_t n, T factor) {
  kernels<T>().row_scale(row, n, factor);
}
template <class T> void row_add(T* row, const T* other, std::size_t n) {
  kernels<T>().row_add(row, other, n);
}
template <class T> void row_subtract(T* row, std::size_t n, T value) {
  kernels<T>().row_subtract(row, n, value);
}
template <class T> T row_exp_sum(T* row, std::size_t n, T shift, T factor) {
  return kernels<T>().row_exp_sum(row, n, shift, factor);
}
template <class T> T row_sum(const T* row, std::size_t n) {
  return kernels<T>().row_sum(row, n);
}
template <class T> void row_divide(T* row, std::size_t n, T divisor) {
  kernels<T>().row_divide(row, n, divisor);
}
template <class T> RowSums row_sums(const T* row, std::size_t n, T uniform) {
  return kernels<T>().row_sums(row, n, uniform);
}

// Rare enough for the standard library's tanh, whatever the instruction set.
template <class T> void row_softcap(T* row, std::size_t n, T cap) {
  for (std::size_t i = 0; i < n; ++i) row[i] = cap * std::tanh(row[i] / cap);
}

template float row_max(const float*, std::size_t);
template double row_max(const double*, std::size_t);
template void row_scale(float*, std::size_t, float);
template void row_scale(double*, std::size_t, double);
template void row_add(float*, const float*, std::size_t);
template void row_add(double*, const double*, std::size_t);
template void row_subtract(float*, std::size_t, float);
template void row_subtract(double*, std::size_t, double);
template float row_exp_sum(float*, std::size_t, float, float);
template double row_exp_sum(double*, std::size_t, double, double);
template float row_sum(const float*, std::size_t);
template double row_sum(const double*, std::size_t);
template void row_divide(float*, std::size_t, float);
template void row_divide(double*, std::size_t, double);
template RowSums row_sums(const float*, std::size_t, float);
template RowSums row_sums(const double*, std::size_t, double);
template void row_softcap(float*, std::size_t, float);
template void row_softcap(double*, std::size_t, double);

} // namespace mha
