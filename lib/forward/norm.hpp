#pragma once
// Norms: of x before the projections, of q and k after them.

#include <mha/layer/layer.hpp>
#include <mha/schedule/tokens.hpp>

namespace mha {

/// out = x / rms(x) · weight, rms over the n elements: √(mean(x²) + eps). Empty weight (nullptr)
/// = 1. `one_plus`: times (1 + weight), as Gemma does. Zhang & Sennrich 2019.
template <class T>
void rms_norm(const T* x, const T* weight, std::size_t n, double eps, bool one_plus, T* out);

/// out = (x − mean) / √(var + eps) · weight + bias; nullptr = 1 and 0. Ba et al. 2016.
template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, std::size_t n, double eps, T* out);

/// x = norm(X), row by row.
template <class T> void norm_input(const Layer& layer, Matrix<const T> X, Matrix<T> x);

/// RMS norm of heads. The weight is d_k long, one for every head, or as long as the projection:
/// then the whole row is one.
template <class T> void norm_heads(const Layer& layer, Matrix<const T> x, const Tensor& weight,
                                   HeadRange heads, Matrix<T> y);
/// What such a norm needs of a row.
Needs needs_of_norm(const Tensor& weight, std::size_t d_k);

} // namespace mha
