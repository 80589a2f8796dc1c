// Norms of rows: their formulas, and the bits of a row whatever stands beside it.

#include <mha/forward/norm.hpp>

#include "support/random_layer.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace mha;

namespace {

constexpr std::size_t width = 37;

template <class T> std::vector<T> numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> list(count);
  std::ranges::generate(list, [&] { return static_cast<T>(random.uniform(-3, 4)); });
  return list;
}

template <class T> Norm norm_of(InputNorm kind, bool has_bias, bool one_plus) {
  Norm norm{kind, 1e-5, {}, {}, one_plus};
  norm.weight = Tensor::of<T>({width}, numbers<T>(width, 2));
  if (has_bias) norm.bias = Tensor::of<T>({width}, numbers<T>(width, 3));
  return norm;
}

/// norm(x) by the formulas.
template <class T> std::vector<long double> by_formula(const Norm& norm, const T* x) {
  long double mean = 0, squares = 0;
  for (std::size_t i = 0; i < width; ++i) mean += x[i];
  mean = norm.kind == InputNorm::layer ? mean / width : 0;
  for (std::size_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  std::vector<long double> y(width);
  for (std::size_t i = 0; i < width; ++i) {
    const long double weight = norm.weight.as<T>()[i] + (norm.one_plus ? 1.0L : 0.0L);
    y[i] = (x[i] - mean) / std::sqrt(squares / width + norm.eps) * weight;
    if (!norm.bias.empty()) y[i] += norm.bias.as<T>()[i];
  }
  return y;
}

} // namespace

TEMPLATE_TEST_CASE(
    "norms of rows: the formula's numbers, and each row's bits are those it has alone", "[norm]",
    float, double) {
  using T = TestType;
  const std::size_t rows = GENERATE(as<std::size_t>{}, 1, 2, 7, 8, 9, 16, 27);
  const Norm norm =
      GENERATE(norm_of<T>(InputNorm::layer, true, false), norm_of<T>(InputNorm::layer, false, true),
               norm_of<T>(InputNorm::rms, false, false), norm_of<T>(InputNorm::rms, false, true));
  constexpr std::size_t stride = width + 5; // rows need not be side by side
  std::vector<T> x = numbers<T>(rows * stride, 4), y(rows * stride, T(-1));
  const Matrix<T> from{x.data(), rows, width, stride}, to{y.data(), rows, width, stride};
  norm_rows<T>(norm, from, to);
  for (std::size_t t = 0; t < rows; ++t) {
    CAPTURE(rows, t);
    std::vector<T> alone(width);
    norm_rows<T>(norm, from.rows_from(t, 1), {alone.data(), 1, width, width});
    CHECK(std::equal(alone.begin(), alone.end(), to.row(t)));
    const std::vector<long double> wanted = by_formula(norm, from.row(t));
    for (std::size_t i = 0; i < width; ++i)
      CHECK(to.row(t)[i] == Approx(static_cast<double>(wanted[i]))
                                .epsilon(sizeof(T) == 4 ? 1e-5 : 1e-13)
                                .margin(sizeof(T) == 4 ? 1e-5 : 1e-13));
    CHECK(std::all_of(to.row(t) + width, to.row(t) + stride, [](T v) { return v == T(-1); }));
  }
  norm_rows<T>(norm, from, from); // in place
  for (std::size_t t = 0; t < rows; ++t)
    CHECK(std::equal(from.row(t), from.row(t) + width, to.row(t)));
}
