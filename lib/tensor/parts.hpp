#pragma once
// Copies of parts of tensors, and the positions of numbers in them.

#include <mha/tensor/tensor.hpp>

#include <span>
#include <string>
#include <vector>

namespace mha {

/// Positions [first, first + count) along an axis.
Tensor part_of_axis(const Tensor& tensor, std::size_t axis, std::size_t first, std::size_t count);
/// These positions along an axis, in their order.
Tensor at_positions(const Tensor& tensor, std::size_t axis, std::span<const std::size_t> positions);

/// The position of a flat index in an array of this shape.
std::vector<std::size_t> place_of(const Shape& shape, std::size_t index);
/// "[0, 2, 5]": the same as text.
std::string place_text(const Shape& shape, std::size_t index);

} // namespace mha
