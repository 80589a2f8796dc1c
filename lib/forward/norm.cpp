#include <mha/forward/norm.hpp>

#include <cmath>

namespace mha {

template <class T>
void rms_norm(const T* x, const T* weight, std::size_t n, double eps, bool one_plus, T* out) {
  T squares = 0;
  for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const T inverse = T(1) / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(eps));
  for (std::size_t i = 0; i < n; ++i) {
    const T w = weight ? (one_plus ? T(1) + weight[i] : weight[i]) : T(1);
    out[i] = x[i] * inverse * w;
  }
}

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, std::size_t n, double eps, T* out) {
  T mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<T>(n);
  T variance = 0;
  for (std::size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const T inverse = T(1) / std::sqrt(variance / static_cast<T>(n) + static_cast<T>(eps));
  for (std::size_t i = 0; i < n; ++i)
    out[i] = (x[i] - mean) * inverse * (weight ? weight[i] : T(1)) + (bias ? bias[i] : T(0));
}

template void rms_norm(const float*, const float*, std::size_t, double, bool, float*);
template void rms_norm(const double*, const double*, std::size_t, double, bool, double*);
template void layer_norm(const float*, const float*, const float*, std::size_t, double, float*);
template void layer_norm(const double*, const double*, const double*, std::size_t, double, double*);

} // namespace mha
