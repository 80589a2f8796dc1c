#pragma once
// Places of numbers in an array.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// "[0, 2, 5]": the place of a flat index in an array of this shape.
std::string place_text(const Shape& shape, std::size_t index);

} // namespace mha
