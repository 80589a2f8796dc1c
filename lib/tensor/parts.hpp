#pragma once
// Parts of tensors, copied.

#include <mha/tensor/tensor.hpp>

#include <span>

namespace mha {

/// Positions [first, first + count) along an axis.
Tensor part_of_axis(const Tensor& tensor, std::size_t axis, std::size_t first, std::size_t count);
/// These positions along an axis, in their order.
Tensor at_positions(const Tensor& tensor, std::size_t axis, std::span<const std::size_t> positions);

} // namespace mha
