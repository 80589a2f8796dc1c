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

template <class T> void norm_input(const Layer& layer, Matrix<const T> X, Matrix<T> x) {
  const T* weight = layer.norm_weight.empty() ? nullptr : layer.norm_weight.as<T>().data();
  const T* bias = layer.norm_bias.empty() ? nullptr : layer.norm_bias.as<T>().data();
  const double eps = layer.settings.input_norm_eps;
  for (std::size_t t = 0; t < x.rows; ++t)
    if (layer.settings.input_norm == InputNorm::rms)
      rms_norm(X.row(t), weight, X.cols, eps, false, x.row(t));
    else
      layer_norm(X.row(t), weight, bias, X.cols, eps, x.row(t));
}

template <class T> void norm_heads(const Layer& layer, Matrix<const T> x, const Tensor& weight,
                                   HeadRange heads, Matrix<T> y) {
  const std::size_t n = weight.count();
  if (n == x.cols) heads = {0, 1};
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t head = heads.first; head < heads.last; ++head)
      rms_norm(x.row(i) + head * n, weight.as<T>().data(), n, layer.settings.qk_norm_eps,
               layer.settings.qk_norm_one_plus, y.row(i) + head * n);
}

Needs needs_of_norm(const Tensor& weight, std::size_t d_k) {
  return weight.empty() || weight.count() == d_k ? Needs::head : Needs::row;
}

template void rms_norm(const float*, const float*, std::size_t, double, bool, float*);
template void rms_norm(const double*, const double*, std::size_t, double, bool, double*);
template void layer_norm(const float*, const float*, const float*, std::size_t, double, float*);
template void layer_norm(const double*, const double*, const double*, std::size_t, double, double*);
template void norm_input(const Layer&, Matrix<const float>, Matrix<float>);
template void norm_input(const Layer&, Matrix<const double>, Matrix<double>);
template void norm_heads(const Layer&, Matrix<const float>, const Tensor&, HeadRange,
                         Matrix<float>);
template void norm_heads(const Layer&, Matrix<const double>, const Tensor&, HeadRange,
                         Matrix<double>);

} // namespace mha
