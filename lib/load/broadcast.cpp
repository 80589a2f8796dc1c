#include <mha/load/broadcast.hpp>

#include <utility>

namespace mha {

std::array<std::size_t, 4> broadcast_strides(const Shape& shape) {
  std::array<std::size_t, 4> strides{};
  std::size_t stride = 1;
  for (std::size_t i = 1; i <= shape.size(); ++i) { // from the last axis to the first
    const std::size_t n = shape[shape.size() - i];
    strides[strides.size() - i] = n == 1 ? 0 : stride;
    stride *= n;
  }
  return strides;
}

Broadcast broadcast_of(Tensor tensor, std::string origin) {
  Broadcast result;
  result.strides = broadcast_strides(tensor.shape());
  result.keys = tensor.shape().back();
  result.tensor = std::move(tensor), result.origin = std::move(origin);
  return result;
}

} // namespace mha
