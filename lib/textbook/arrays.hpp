#pragma once
// Arrays of xtensor in float64, and the few operations of attention: product, bias, heads, norm.

#include <mha/layer/layer.hpp>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

#include <cmath>
#include <limits>

namespace mha::textbook {

using Array = xt::xarray<double>;
using Booleans = xt::xarray<bool>;
using xt::all;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline double real(std::size_t n) {
  return static_cast<double>(n);
}

/// 0, 1 … n − 1 from a first number on.
inline Array numbers_from(double first, std::size_t n) {
  return first + xt::arange<double>(real(n));
}

/// The same numbers under another shape.
inline Array shaped(Array a, const Shape& shape) {
  return a.reshape(shape);
}

inline Array array(const Tensor& tensor) {
  const Tensor numbers = convert(tensor, DType::f64);
  return xt::adapt(numbers.as<double>().data(), numbers.count(), xt::no_ownership(),
                   numbers.shape());
}

/// Σ_i a[…, t, i] b[…, i, j], the matrix product over the last two axes.
inline Array product(const Array& a, const Array& b) {
  const std::size_t i = a.dimension() - 1;
  return xt::sum(xt::expand_dims(a, i + 1) * xt::expand_dims(b, b.dimension() - 2), {i});
}

/// x W + b. A weight that is absent is the identity, a bias that is absent is zero.
inline Array linear(const Array& x, const Tensor& W, const Tensor& b) {
  Array y = W.empty() ? x : product(x, array(W));
  if (!b.empty()) y += array(b);
  return y;
}

/// B, T, H·d to B, H, T, d.
inline Array split(const Array& rows, std::size_t heads) {
  return xt::transpose(shaped(rows, {rows.shape(0), rows.shape(1), heads, rows.shape(2) / heads}),
                       {0, 2, 1, 3});
}

/// B, H, T, d to B, T, H·d.
inline Array side_by_side(const Array& heads) {
  return shaped(xt::transpose(heads, {0, 2, 1, 3}),
                {heads.shape(0), heads.shape(2), heads.shape(1) * heads.shape(3)});
}

/// Numbers limited to [−c, c]; c = 0 means no limit.
inline Array clipped(const Array& x, double c) {
  return c == 0 ? x : Array(xt::where(x > c, c, xt::where(x < -c, -c, x)));
}

/// The mean over some axes, which stay with length 1.
inline Array mean_of(const Array& x, const Shape& axes) {
  return xt::mean(x, axes, xt::keep_dims);
}

/// (x − mean) / √(mean of squares + ε) over some axes. An RMS norm subtracts no mean.
inline Array normalised(const Array& x, const Shape& axes, bool subtracts_mean, double eps) {
  const Array y = subtracts_mean ? Array(x - mean_of(x, axes)) : x;
  return y / xt::sqrt(mean_of(y * y, axes) + eps);
}

/// The largest number of each row; NaN if the row has a NaN.
inline Array largest(const Array& rows) {
  const auto larger = [](double a, double b) { return std::isnan(a) || a > b ? a : b; };
  const auto none = xt::const_value<double>(-infinity);
  return xt::reduce(xt::make_xreducer_functor(larger, none), rows, {3});
}

} // namespace mha::textbook
