#include <mha/tensor/place.hpp>

#include <fmt/format.h>

namespace mha {

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
