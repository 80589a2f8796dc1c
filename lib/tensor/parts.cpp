#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

namespace {

/// Copies the ranges [first, first + count) along an axis, one after the other.
Tensor runs_of(const Tensor& tensor, std::size_t axis, std::span<const std::size_t> firsts,
               std::size_t count) {
  Shape shape = tensor.shape();
  std::size_t outer = 1, inner = size_of(tensor.dtype());
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const std::size_t whole = shape[axis];
  shape[axis] = firsts.size() * count;
  Tensor part = Tensor::uninitialised(tensor.dtype(), shape);
  if (part.bytes() == 0) return part;
  const std::byte* const from = tensor.raw();
  std::byte* to = part.raw_mutable();
  for (std::size_t i = 0; i < outer; ++i)
    for (const std::size_t first : firsts)
      to = std::copy_n(from + (i * whole + first) * inner, count * inner, to);
  return part;
}

} // namespace

Tensor part_of_axis(const Tensor& tensor, std::size_t axis, std::size_t first, std::size_t count) {
  return runs_of(tensor, axis, {&first, 1}, count);
}

Tensor at_positions(const Tensor& tensor, std::size_t axis,
                    std::span<const std::size_t> positions) {
  return runs_of(tensor, axis, positions, 1);
}

std::vector<std::size_t> place_of(const Shape& shape, std::size_t index) {
  std::vector<std::size_t> place(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; index /= shape[axis])
    place[axis] = index % shape[axis];
  return place;
}

std::string place_text(const Shape& shape, std::size_t index) {
  return fmt::format("[{}]", fmt::join(place_of(shape, index), ", "));
}

} // namespace mha
