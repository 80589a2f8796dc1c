#include <mha/compare/spread_steps.hpp>

#include <mha/compare/compare.hpp>
#include <mha/layer/layer.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

double before_cap(double capped, double cap) {
  if (cap == 0) return capped;
  constexpr double nearest = 1 - 1e-6;
  return cap * std::atanh(std::clamp(capped / cap, -nearest, nearest));
}

bool are_powers(Stage stage, const Tensor& given) {
  if (stage != Stage::exp && stage != Stage::weights) return false;
  for (std::size_t i = 0; i < given.count(); ++i)
    if (value_at(given, i) < 0) return false;
  return true;
}

double Spacing::unless_held(double number) const {
  const double units = number / (2 * most(number));
  return number == 0 || !std::isfinite(number) || units == std::floor(units) ? 0 : of(number);
}

Spacing spacing_of(DType dtype) {
  return {std::ldexp(1.0, -significand_bits(dtype)), dtype == DType::f16   ? 0x1p-14
                                                     : dtype == DType::f64 ? 0x1p-1022
                                                                           : 0x1p-126};
}

Squares times(const Squares& a, const Squares& b, std::size_t threads) {
  Squares product(a.rows, b.cols);
  if (product.numbers.empty() || a.cols == 0) return product;
  // Numbers that are not finite are left out, so that the others keep their variance.
  const auto largest_of = [](const Squares& grid) {
    double most = 0;
    for (const double number : grid.numbers)
      if (std::isfinite(number)) most = std::max(most, number);
    return most;
  };
  const double largest = largest_of(a), other = largest_of(b);
  if (!(largest > 0) || !(other > 0)) return product;
  // As the projection of a layer with one head, the product is as fast as a layer's.
  const auto scaled = [](const Squares& grid, double by, const Shape& shape) {
    Tensor tensor = Tensor::uninitialised(DType::f32, shape);
    const auto to = tensor.as_mutable<float>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = std::isfinite(grid.numbers[i]) ? static_cast<float>(grid.numbers[i] / by) : 0;
    return tensor;
  };
  Layer layer;
  Dims& d = layer.dims;
  d.T = d.S = d.S_all = a.rows, d.H = d.H_kv = 1, d.d_model = a.cols, d.d_k = b.cols;
  layer.X = scaled(a, largest, {1, a.rows, a.cols});
  layer.W_q = scaled(b, other, {b.rows, b.cols});
  const Tensor q = trace(layer, {Stage::q}, {}, threads).value(Stage::q);
  const auto from = q.as<float>();
  for (std::size_t i = 0; i < from.size(); ++i)
    product.numbers[i] = std::max(0.0, static_cast<double>(from[i])) * largest * other;
  return product;
}

Squares variance_of_product(const Squares& a, const Squares& variance, const Squares& squares,
                            const Squares* own, const Spacing& summed, std::size_t threads) {
  const std::size_t n = a.cols, parts = own ? 2 : 1;
  Squares left(a.rows, parts * n), right(parts * n, squares.cols);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      left.row(i)[k] = variance.row(i)[k] + of_sum(summed, n, a.row(i)[k], 0);
      if (own) left.row(i)[n + k] = a.row(i)[k];
    }
  std::ranges::copy(squares.numbers, right.numbers.begin());
  if (own)
    std::ranges::copy(own->numbers,
                      right.numbers.begin() + static_cast<std::ptrdiff_t>(squares.numbers.size()));
  return times(left, right, threads);
}

void variance_of_given(const Spacing& kept, double off, bool each, const double* y, std::size_t n,
                       double* variance) {
  constexpr double usual = 50; // mask constants are beyond
  double level = 0;            // mean square of the row
  for (std::size_t i = 0; !each && i < n; ++i)
    if (std::fabs(y[i]) < usual) level += y[i] * y[i] / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i)
    variance[i] = kept.of(y[i]) + off * off * (each ? y[i] * y[i] : (y[i] * y[i] + level) / 2);
}

void through_norm(InputNorm kind, double eps, const double* x, const double* gain,
                  const Spacing& kept, const Spacing& summed, double* variance, std::size_t n) {
  const auto count = static_cast<double>(n);
  const bool centred = kind == InputNorm::layer, affine = kind == InputNorm::affine;
  double mean = 0, square = 0;
  for (std::size_t i = 0; centred && i < n; ++i) mean += x[i] / count;
  for (std::size_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / count;
  const double inverse = affine ? 1 : 1 / std::sqrt(square + eps);
  double of_mean = 0, of_root = 0;
  for (std::size_t i = 0; !affine && i < n; ++i) {
    variance[i] += summed.at_worst(x[i]) + (centred ? summed.at_worst(mean) : 0);
    const double y = (x[i] - mean) * inverse;
    of_root += y * y * variance[i] * inverse * inverse / (count * count);
    if (centred) of_mean += variance[i] / (count * count);
  }
  if (!affine) of_root += of_sum(summed, n, 0, 1);
  for (std::size_t i = 0; i < n; ++i) {
    const double y = (x[i] - mean) * inverse; // stored before it is multiplied
    variance[i] = gain[i] * gain[i] *
                  ((variance[i] + of_mean) * inverse * inverse + y * y * of_root + kept.of(y));
  }
}

std::vector<double> gains_of(const Tensor& weight, bool one_plus, std::size_t n) {
  std::vector<double> gains(n, 1.0);
  for (std::size_t i = 0; !weight.empty() && i < n; ++i)
    gains[i] = value_at(weight, i) + (one_plus ? 1 : 0);
  return gains;
}

} // namespace mha
