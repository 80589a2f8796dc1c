#pragma once
// The functions of one token: what happens to a row of x, q, k or v.

#include <cstddef>

namespace mha {

/// out = x / rms(x) · weight, rms over the n elements: √(mean(x²) + eps). Empty weight (nullptr)
/// = 1. `one_plus`: times (1 + weight), as Gemma does. Zhang & Sennrich 2019.
template <class T>
void rms_norm(const T* x, const T* weight, std::size_t n, double eps, bool one_plus, T* out);

/// out = (x − mean) / √(var + eps) · weight + bias; nullptr = 1 and 0. Ba et al. 2016.
template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, std::size_t n, double eps, T* out);

/// Rotates the first `dims` of the `n` elements of a head by the angles position · frequency_i,
/// whose cosines and sines are given (dims / 2 each); the others pass through. Su et al. 2021.
/// half: pairs (i, i + dims/2), as GPT-NeoX and LLaMA in Hugging Face's layout;
/// interleaved: pairs (2i, 2i + 1), as GPT-J and the paper.
template <class T> void rotate(const T* x, const T* cosines, const T* sines, std::size_t n,
                               std::size_t dims, bool interleaved, T* out);

} // namespace mha
