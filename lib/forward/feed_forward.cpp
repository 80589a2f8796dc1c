#include <mha/forward/feed_forward.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/maths/functions.hpp>

#include <algorithm>
#include <vector>

namespace mha {

namespace {

/// y = x σ(z), where y holds z: x / (1 + exp(−z)). Exact where tanh and σ would cancel.
template <class T> void times_sigmoid(const T* x, std::size_t n, T* y) {
  row_exp_sum(y, n, T(0), T(-1));
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] / (T(1) + y[i]);
}

/// ½x(1 + tanh(u)) = x σ(2u) with u = root · (x + 0.044715 x³).
template <class T> void gelu_by_tanh(const T* x, std::size_t n, double root, T* y) {
  const T twice = static_cast<T>(2 * root), cubic = static_cast<T>(0.044715);
  for (std::size_t i = 0; i < n; ++i) y[i] = twice * (x[i] + cubic * x[i] * x[i] * x[i]);
  times_sigmoid(x, n, y);
}

template <class T> void activate_row(Activation activation, const T* x, std::size_t n, T* y) {
  switch (activation) {
  case Activation::identity:
    std::copy_n(x, n, y);
    return;
  case Activation::relu:
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? T(0) : x[i]; // NaN stays
    return;
  case Activation::relu2:
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? T(0) : x[i] * x[i];
    return;
  case Activation::silu:
    std::copy_n(x, n, y);
    return times_sigmoid(x, n, y);
  case Activation::gelu:
    std::copy_n(x, n, y);
    maths::erf_row(y, n, static_cast<T>(0.70710678118654752440));
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * T(0.5) * (T(1) + y[i]);
    return;
  case Activation::gelu_tanh:
    return gelu_by_tanh(x, n, 0.79788456080286535588, y); // √(2/π)
  case Activation::gelu_fast:
    return gelu_by_tanh(x, n, 0.7978845608, y);
  case Activation::gelu_quick:
    for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<T>(1.702) * x[i];
    return times_sigmoid(x, n, y);
  case Activation::solu:
    std::copy_n(x, n, y);
    const T sum = row_exp_sum(y, n, row_max(x, n));
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * (y[i] / sum);
    return;
  }
}

/// y · x, element by element.
template <class T> void multiply_rows(Matrix<const T> x, Matrix<T> y) {
  for (std::size_t t = 0; t < y.rows; ++t)
    for (std::size_t i = 0; i < y.cols; ++i) y.row(t)[i] *= x.row(t)[i];
}

} // namespace

template <class T> void activate(Activation activation, Matrix<const T> x, Matrix<T> y) {
  for (std::size_t t = 0; t < x.rows; ++t) activate_row(activation, x.row(t), x.cols, y.row(t));
}

template <class T> void Activated<T>::prepare(const Usage& usage) {
  b_in_use_ = convert(b_, dtype_of<T>);
  norm_.prepare(usage);
}

template <class T>
void Activated<T>::activate_clamped(Matrix<const T> x, Matrix<T> y) const {
  const T limit = static_cast<T>(clamp_.limit);
  const auto at_most = [&](const T* from, T* to) { // NaN stays
    std::transform(from, from + x.cols, to, [&](T a) { return a > limit ? limit : a; });
  };
  std::vector<T> clamped(x.cols);
  for (std::size_t t = 0; t < y.rows; ++t) {
    if (!clamp_.after_activation) at_most(x.row(t), clamped.data());
    activate_row(activation_, clamp_.after_activation ? x.row(t) : clamped.data(), x.cols,
                 y.row(t));
    if (clamp_.after_activation) at_most(y.row(t), y.row(t));
  }
}

template <class T> void Activated<T>::multiply_by_up(Matrix<const T> up, Matrix<T> y) const {
  if (!clamp_.present() && !up_plus_one_) return multiply_rows(up, y);
  std::vector<T> factor(up.cols);
  for (std::size_t t = 0; t < y.rows; ++t) {
    std::copy_n(up.row(t), up.cols, factor.data());
    if (clamp_.present()) row_clip(factor.data(), up.cols, static_cast<T>(clamp_.limit));
    for (std::size_t i = 0; i < up.cols; ++i)
      y.row(t)[i] *= up_plus_one_ ? factor[i] + T(1) : factor[i];
  }
}

template <class T> void Activated<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const std::size_t first = rows.columns().first,
                    n = std::min(rows.columns().last, rows[to].cols) - first;
  const Matrix<T> y = rows[to].cols_from(first, n);
  const Matrix<const T> x = rows[from].cols_from(first, n);
  clamp_.present() ? activate_clamped(x, y) : activate(activation_, x, y);
  if (is_gated_) multiply_by_up(rows[up_].cols_from(first, n), y);
  for (std::size_t t = 0; !b_in_use_.empty() && t < y.rows; ++t)
    row_add(y.row(t), b_in_use_.as<T>().data() + first, n);
  norm_.apply(rows, to, to);
}

template void activate(Activation, Matrix<const float>, Matrix<float>);
template void activate(Activation, Matrix<const double>, Matrix<double>);
template class Activated<float>;
template class Activated<double>;

} // namespace mha
