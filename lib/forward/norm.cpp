#include <mha/forward/norm.hpp>

#include <mha/kernels/rows.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace mha {

Clip clip_of(const Layer& layer) {
  const double c = layer.settings.clip_qkv;
  return {layer.q_norm_weight.empty() ? c : 0, layer.k_norm_weight.empty() ? c : 0, c};
}

namespace {

/// What column i of a normalised row is multiplied by: w, 1 + w, or 1 without a weight.
template <class T> T gain(const T* weight, std::size_t i, bool one_plus) {
  if (!weight) return T(1);
  return one_plus ? T(1) + weight[i] : weight[i];
}

/// The sum over a row is one chain of additions, each of which waits for the one before. The chains
/// of some rows go side by side, and every row has the bits that it has alone.
constexpr std::size_t rows_together = 8;

/// Σ term(row, column) over n columns, of each of the rows.
template <class T, std::size_t rows, class Term>
std::array<T, rows> row_sums(std::size_t n, const Term& term) {
  std::array<T, rows> sums{};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t t = 0; t < rows; ++t) sums[t] += term(t, i);
  return sums;
}

/// Calls norm(how many, their x, their y) for the rows that go together, then for each of the
/// others.
template <class T, class F> void by_rows(Matrix<const T> x, Matrix<T> y, const F& norm) {
  std::size_t first = 0;
  const auto take = [&](auto rows) {
    for (; first + rows <= x.rows; first += rows)
      norm(rows, x.rows_from(first, rows), y.rows_from(first, rows));
  };
  take(std::integral_constant<std::size_t, rows_together>());
  take(std::integral_constant<std::size_t, 1>());
}

/// y = (x − mean) / √(var + eps) · weight + bias, row by row; no weight is 1, no bias is 0. Ba et
/// al. 2016.
template <class T> void layer_norm(Matrix<const T> all_x, const T* weight, const T* bias,
                                   double eps, bool one_plus, Matrix<T> all_y) {
  const std::size_t n = all_x.cols;
  by_rows(all_x, all_y, [&](auto rows, Matrix<const T> x, Matrix<T> y) {
    auto mean = row_sums<T, rows>(n, [&](std::size_t t, std::size_t i) { return x.row(t)[i]; });
    for (T& m : mean) m /= static_cast<T>(n);
    const auto squares = row_sums<T, rows>(n, [&](std::size_t t, std::size_t i) {
      return (x.row(t)[i] - mean[t]) * (x.row(t)[i] - mean[t]);
    });
    for (std::size_t t = 0; t < rows; ++t) {
      const T inverse = T(1) / std::sqrt(squares[t] / static_cast<T>(n) + static_cast<T>(eps));
      for (std::size_t i = 0; i < n; ++i)
        y.row(t)[i] =
            (x.row(t)[i] - mean[t]) * inverse * gain(weight, i, one_plus) + (bias ? bias[i] : T(0));
    }
  });
}

/// y = x · weight + bias, row by row; no weight is 1, no bias is 0: a batch norm in inference,
/// whose mean and variance are constants and part of weight and bias. Ioffe & Szegedy 2015.
template <class T>
void affine_norm(Matrix<const T> x, const T* weight, const T* bias, Matrix<T> y) {
  for (std::size_t t = 0; t < x.rows; ++t)
    for (std::size_t i = 0; i < x.cols; ++i)
      y.row(t)[i] = x.row(t)[i] * (weight ? weight[i] : T(1)) + (bias ? bias[i] : T(0));
}

} // namespace

template <class T>
void rms_norm(Matrix<const T> all_x, const T* weight, double eps, bool one_plus, Matrix<T> all_y) {
  const std::size_t n = all_x.cols;
  by_rows(all_x, all_y, [&](auto rows, Matrix<const T> x, Matrix<T> y) {
    const auto squares = row_sums<T, rows>(
        n, [&](std::size_t t, std::size_t i) { return x.row(t)[i] * x.row(t)[i]; });
    for (std::size_t t = 0; t < rows; ++t) {
      const T inverse = T(1) / std::sqrt(squares[t] / static_cast<T>(n) + static_cast<T>(eps));
      for (std::size_t i = 0; i < n; ++i)
        y.row(t)[i] = x.row(t)[i] * inverse * gain(weight, i, one_plus);
    }
  });
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
  if (norm.kind == InputNorm::rms)
    rms_norm(x, weight, norm.eps, norm.one_plus, y);
  else if (norm.kind == InputNorm::layer)
    layer_norm(x, weight, bias, norm.eps, norm.one_plus, y);
  else if (norm.kind == InputNorm::affine)
    affine_norm(x, weight, bias, y);
  else if (x.data != y.data)
    for (std::size_t t = 0; t < x.rows; ++t) std::copy_n(x.row(t), x.cols, y.row(t));
}

template <class T> void InputNormOf<T>::apply(const TokenRows<T>& rows, Stage, Stage to) const {
  const Settings& s = layer_.settings;
  norm_rows<T>({s.input_norm, s.input_norm_eps, layer_.norm_weight, layer_.norm_bias},
               rows.of(layer_.X), rows[to]);
}

HeadNormForm qk_norm_of(const Layer& layer) {
  const Settings& s = layer.settings;
  return {s.qk_norm, s.qk_norm_eps, s.qk_norm_one_plus, s.clip_qkv};
}

HeadNormForm rms_norm_of_heads(const Layer& layer) {
  return {QkNorm::rms, layer.settings.qk_norm_eps, false, 0};
}

template <class T> void HeadNorm<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const std::size_t n = width(), own = weight_.rank() == 2 ? n : 0; // of each head, or every head's
  const Matrix<const T> x = rows[from];
  const Matrix<T> y = rows[to];
  const HeadRange heads = n == x.cols ? HeadRange{0, 1} : rows.heads();
  const T* bias = bias_.count() == weight_.count() ? bias_.as<T>().data() : nullptr;
  for (std::size_t head = heads.first; head < heads.last; ++head) {
    const Matrix<const T> in = x.cols_from(head * n, n);
    const Matrix<T> out = y.cols_from(head * n, n);
    const T* weight = weight_.as<T>().data() + head * own;
    if (form_.kind == QkNorm::rms)
      rms_norm(in, weight, form_.eps, form_.one_plus, out);
    else
      layer_norm(in, weight, bias ? bias + head * own : nullptr, form_.eps, false, out);
    if (form_.clip > 0)
      for (std::size_t i = 0; i < out.rows; ++i)
        row_clip(out.row(i), n, static_cast<T>(form_.clip));
  }
}

template void rms_norm(Matrix<const float>, const float*, double, bool, Matrix<float>);
template void rms_norm(Matrix<const double>, const double*, double, bool, Matrix<double>);
template void norm_rows(const Norm&, Matrix<const float>, Matrix<float>);
template void norm_rows(const Norm&, Matrix<const double>, Matrix<double>);
template class InputNormOf<float>;
template class InputNormOf<double>;
template class HeadNorm<float>;
template class HeadNorm<double>;

} // namespace mha
