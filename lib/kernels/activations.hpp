#pragma once
// Activations of one number.

#include <algorithm>
#include <cmath>

namespace mha {

/// σ(x) = 1 / (1 + e⁻ˣ).
template <class T> T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

/// log(1 + eˣ), without overflow; NaN stays.
template <class T> T softplus(T x) {
  return std::isnan(x) ? x : std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}

} // namespace mha
