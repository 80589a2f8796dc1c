#pragma once
// Places of numbers in an array.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// The place of a flat index in an array of this shape.
std::vector<std::size_t> place_of(const Shape& shape, std::size_t index);
/// "[0, 2, 5]": the same as text.
std::string place_text(const Shape& shape, std::size_t index);

} // namespace mha
