#pragma once
// Masks and biases of fewer axes, laid over queries and keys.

#include <mha/layer/layer.hpp>

#include <string>

namespace mha {

/// A tensor over the last of the axes (B, H, T, S), 1 to 4 of them. One that is missing, or has one
/// element, is the same for all of the layer's.
Broadcast broadcast_of(Tensor tensor, std::string origin);

} // namespace mha
