#pragma once
// Activations of one number.

#include <mha/maths/functions.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

/// σ(x) = 1 / (1 + e⁻ˣ).
template <class T> T sigmoid(T x) {
  return T(1) / (T(1) + maths::exp(-x));
}

/// log(1 + eˣ), without overflow; NaN stays.
template <class T> T softplus(T x) {
  return std::isnan(x) ? x : std::max(x, T(0)) + maths::log1p(maths::exp(-std::abs(x)));
}

} // namespace mha
