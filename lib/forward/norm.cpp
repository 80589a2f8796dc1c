#include <mha/forward/norm.hpp>

#include <mha/kernels/rows.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

Clip clip_of(const Layer& layer) {
  const double c = layer.settings.clip_qkv;
  return {layer.q_norm_weight.empty() ? c : 0, layer.k_norm_weight.empty() ? c : 0, c};
}

/// What column i of a normalised row is multiplied by: w, 1 + w, or 1 without a weight.
template <class T> T gain(const T* weight, std::size_t i, bool one_plus) {
  if (!weight) return T(1);
  return one_plus ? T(1) + weight[i] : weight[i];
}

template <class T>
void rms_norm(const T* x, const T* weight, std::size_t n, double eps, bool one_plus, T* out) {
  T squares = 0;
  for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const T inverse = T(1) / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(eps));
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * inverse * gain(weight, i, one_plus);
}

template <class T> void layer_norm(const T* x, const T* weight, const T* bias, std::size_t n,
                                   double eps, bool one_plus, T* out) {
  T mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<T>(n);
  T variance = 0;
  for (std::size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const T inverse = T(1) / std::sqrt(variance / static_cast<T>(n) + static_cast<T>(eps));
  for (std::size_t i = 0; i < n; ++i)
    out[i] = (x[i] - mean) * inverse * gain(weight, i, one_plus) + (bias ? bias[i] : T(0));
}

template <class T>
void affine_norm(const T* x, const T* weight, const T* bias, std::size_t n, T* out) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = x[i] * (weight ? weight[i] : T(1)) + (bias ? bias[i] : T(0));
}

Norm in_precision(const Norm& norm, DType dtype) {
  Norm converted = norm;
  if (!norm.weight.empty()) converted.weight = convert(norm.weight, dtype);
  if (!norm.bias.empty()) converted.bias = convert(norm.bias, dtype);
  return converted;
}

template <class T> void norm_rows(const Norm& norm, Matrix<const T> x, Matrix<T> y) {
  const T* weight = norm.weight.empty() ? nullptr : norm.weight.as<T>().data();
  const T* bias = norm.bias.empty() ? nullptr : norm.bias.as<T>().data();
  for (std::size_t t = 0; t < x.rows; ++t)
    if (norm.kind == InputNorm::rms)
      rms_norm(x.row(t), weight, x.cols, norm.eps, norm.one_plus, y.row(t));
    else if (norm.kind == InputNorm::layer)
      layer_norm(x.row(t), weight, bias, x.cols, norm.eps, norm.one_plus, y.row(t));
    else if (norm.kind == InputNorm::affine)
      affine_norm(x.row(t), weight, bias, x.cols, y.row(t));
    else if (x.row(t) != y.row(t))
      std::copy_n(x.row(t), x.cols, y.row(t));
}

template <class T> void InputNormOf<T>::apply(const TokenRows<T>& rows, Stage, Stage to) const {
  const Settings& s = layer_.settings;
  norm_rows<T>({s.input_norm, s.input_norm_eps, layer_.norm_weight, layer_.norm_bias},
               rows.of(layer_.X), rows[to]);
}

template <class T> void HeadNorm<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Settings& s = layer_.settings;
  const std::size_t n = width(), own = weight_.rank() == 2 ? n : 0; // of each head, or every head's
  const Matrix<const T> x = rows[from];
  const Matrix<T> y = rows[to];
  const HeadRange heads = n == x.cols ? HeadRange{0, 1} : rows.heads();
  const T* bias = bias_.count() == weight_.count() ? bias_.as<T>().data() : nullptr;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t head = heads.first; head < heads.last; ++head) {
      const T *in = x.row(i) + head * n, *weight = weight_.as<T>().data() + head * own;
      T* out = y.row(i) + head * n;
      if (s.qk_norm == QkNorm::rms)
        rms_norm(in, weight, n, s.qk_norm_eps, s.qk_norm_one_plus, out);
      else
        layer_norm(in, weight, bias ? bias + head * own : nullptr, n, s.qk_norm_eps, false, out);
      if (s.clip_qkv > 0) row_clip(out, n, static_cast<T>(s.clip_qkv));
    }
}

template void rms_norm(const float*, const float*, std::size_t, double, bool, float*);
template void rms_norm(const double*, const double*, std::size_t, double, bool, double*);
template void layer_norm(const float*, const float*, const float*, std::size_t, double, bool,
                         float*);
template void layer_norm(const double*, const double*, const double*, std::size_t, double, bool,
                         double*);
template void affine_norm(const float*, const float*, const float*, std::size_t, float*);
template void affine_norm(const double*, const double*, const double*, std::size_t, double*);
template void norm_rows(const Norm&, Matrix<const float>, Matrix<float>);
template void norm_rows(const Norm&, Matrix<const double>, Matrix<double>);
template class InputNormOf<float>;
template class InputNormOf<double>;
template class HeadNorm<float>;
template class HeadNorm<double>;

} // namespace mha
