#pragma once
// The norms of one row: of x before the projections, of q and k after them.

#include <cstddef>

namespace mha {

/// out = x / rms(x) · weight, rms over the n elements: √(mean(x²) + eps). Empty weight (nullptr)
/// = 1. `one_plus`: times (1 + weight), as Gemma does. Zhang & Sennrich 2019.
template <class T>
void rms_norm(const T* x, const T* weight, std::size_t n, double eps, bool one_plus, T* out);

/// out = (x − mean) / √(var + eps) · weight + bias; nullptr = 1 and 0. Ba et al. 2016.
template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, std::size_t n, double eps, T* out);

} // namespace mha
