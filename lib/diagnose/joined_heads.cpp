#include <mha/diagnose/joined_heads.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <cmath>
#include <numeric>

namespace mha {

Tensor joined_heads_of(const Layer& layer, const Tensor& output) {
  const std::size_t n = layer.W_o.shape()[0], m = layer.W_o.shape()[1];
  if (n > m || n > thresholds::widest_joined) return {};
  std::vector<double> A(n * n), weights(n * m), bias(m, 0.0);
  for (std::size_t i = 0; i < n * m; ++i) weights[i] = value_at(layer.W_o, i);
  for (std::size_t j = 0; j < m && !layer.b_o.empty(); ++j) bias[j] = value_at(layer.b_o, j);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j)
      A[i * n + j] = A[j * n + i] =
          std::inner_product(&weights[i * m], &weights[i * m] + m, &weights[j * m], 0.0);
  // Cholesky: A = L Lᵀ.
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double rest =
          A[i * n + j] - std::inner_product(&A[i * n], &A[i * n] + j, &A[j * n], 0.0);
      if (i == j && !(rest > thresholds::least_pivot * A[i * n + i])) return {};
      A[i * n + j] = i == j ? std::sqrt(rest) : rest / A[j * n + j];
    }
  const std::size_t rows = output.count() / m;
  Tensor joined = Tensor::uninitialised(output.dtype(), {output.shape()[0], output.shape()[1], n});
  std::vector<double> y(n), projected(m);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < m; ++j) projected[j] = value_at(output, row * m + j) - bias[j];
    for (std::size_t i = 0; i < n; ++i)
      y[i] = std::inner_product(&weights[i * m], &weights[i * m] + m, projected.begin(), 0.0);
    for (std::size_t i = 0; i < n; ++i)
      y[i] = (y[i] - std::inner_product(&A[i * n], &A[i * n] + i, y.begin(), 0.0)) / A[i * n + i];
    for (std::size_t i = n; i-- > 0;) { // by rows of L, as they lie
      y[i] /= A[i * n + i];
      for (std::size_t j = 0; j < i; ++j) y[j] -= A[i * n + j] * y[i];
    }
    by_precision(joined.dtype(), [&]<class T>(T) {
      for (std::size_t i = 0; i < n; ++i)
        joined.as_mutable<T>()[row * n + i] = static_cast<T>(y[i]);
    });
  }
  return joined;
}

} // namespace mha
