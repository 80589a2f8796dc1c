#pragma once
// Masks and biases of fewer axes, laid over queries and keys.

#include <mha/layer/layer.hpp>

#include <array>
#include <string>

namespace mha {

/// How far apart, in elements, neighbours along (B, H, T, S) are in dense memory of this shape, the
/// last of these axes, 1 to 4 of them: 0 along an axis that is missing or has length 1.
std::array<std::size_t, 4> broadcast_strides(const Shape& shape);

/// A tensor over the last of the axes (B, H, T, S), of rank 1 to 4, from the first key on. What is
/// missing of B, H and T, or has length 1, is repeated; a caller whose one number is for all keys
/// sets `keys`.
Broadcast broadcast_of(Tensor tensor, std::string origin);

} // namespace mha
