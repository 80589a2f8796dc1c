#pragma once
// Numbers of machines whose bytes have the other order.

#include <cstddef>

namespace mha::io {

/// Turns the bytes of each of `count` elements of `size` bytes around.
void swap_bytes(std::byte* data, std::size_t count, std::size_t size);

} // namespace mha::io
