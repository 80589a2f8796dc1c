#include <mha/formats/byte_order.hpp>

#include <algorithm>

namespace mha::io {

namespace {

template <std::size_t Size> void swap_elements(std::byte* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * Size, data + (i + 1) * Size);
}

} // namespace

void swap_bytes(std::byte* data, std::size_t count, std::size_t size) {
  if (size == 2) swap_elements<2>(data, count);
  if (size == 4) swap_elements<4>(data, count);
  if (size == 8) swap_elements<8>(data, count);
}

} // namespace mha::io
