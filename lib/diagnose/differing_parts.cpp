#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <cmath>
#include <numeric>

namespace mha {

Sides sides_of(const Layer& layer, const Target& target, Tensor ours) {
  Sides s;
  s.ours = std::move(ours);
  s.theirs = target.theirs;
  const Shape& shape = s.theirs.shape();
  const StageInfo& info = info_of(target.stage);
  s.map = info.kind == Kind::map;
  s.B = shape[0];
  if (info.kind == Kind::token) {
    const Axis first = axis_of(info.letters[0]);
    s.packed = true, s.T = shape[1];
    s.H = first == Axis::head ? layer.dims.H : first == Axis::kv_head ? layer.dims.H_kv : 1;
    if (target.stage == Stage::concat) s.H = layer.dims.H;
    s.n = shape[2] / s.H;
  } else {
    s.H = shape[1], s.T = shape[2], s.n = shape.size() > 3 ? shape[3] : 1;
    if (shape.size() > 4) s.n *= shape[4];
  }
  return s;
}

std::vector<double> row_differences(const Sides& s) {
  return differences(s, s.T,
                     [](std::size_t, std::size_t, std::size_t t, std::size_t) { return t; });
}

std::vector<std::size_t> differing_parts(const std::vector<double>& difference, double tolerance) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < difference.size(); ++i)
    if (difference[i] > 8 * tolerance) list.push_back(i);
  return list;
}

namespace {

/// Whether our head h agrees with their head g.
bool heads_agree(const Sides& s, std::size_t h, std::size_t g, double tolerance) {
  double difference = 0, size = 0;
  for (std::size_t b = 0; b < s.B; ++b)
    for (std::size_t t = 0; t < s.T; ++t)
      for (std::size_t j = 0; j < s.n; ++j) {
        const double a = value_at(s.ours, s.at(b, h, t, j)),
                     r = value_at(s.theirs, s.at(b, g, t, j));
        if (a == r || (a <= thresholds::mask_constant && r <= thresholds::mask_constant)) continue;
        difference += (a - r) * (a - r), size += r * r;
      }
  return size > 0 && std::sqrt(difference / size) <= 8 * tolerance;
}

} // namespace

std::vector<std::size_t> order_of_heads(const Sides& s, double tolerance) {
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < s.H; ++g) {
    std::size_t h = 0;
    while (h < s.H && !heads_agree(s, (g + h) % s.H, g, tolerance)) ++h; // its own first
    if (h == s.H) return {};
    order.push_back((g + h) % s.H);
  }
  return order;
}

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
    for (std::size_t i = n; i-- > 0;) { // solves Lᵀ x = y by rows of L, which are contiguous
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
