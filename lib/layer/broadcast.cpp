#include <mha/layer/broadcast.hpp>

#include <utility>

namespace mha {

Broadcast broadcast_of(Tensor tensor, std::string origin) {
  Broadcast result;
  const Shape& shape = tensor.shape();
  std::size_t stride = 1;
  for (std::size_t i = 1; i <= shape.size(); ++i) { // from the last axis to the first
    const std::size_t n = shape[shape.size() - i];
    result.strides[result.strides.size() - i] = n == 1 ? 0 : stride;
    stride *= n;
  }
  result.keys = shape.back();
  result.tensor = std::move(tensor), result.origin = std::move(origin);
  return result;
}

} // namespace mha
