#pragma once
// Masks and biases of fewer axes, laid over queries and keys.

#include <mha/layer/layer.hpp>

#include <string>

namespace mha {

/// A tensor over the last of the axes (B, H, T, S), of rank 1 to 4, from the first key on. What is
/// missing of B, H and T, or has length 1, is repeated; a caller whose one number is for all keys
/// sets `keys`.
Broadcast broadcast_of(Tensor tensor, std::string origin);

} // namespace mha
