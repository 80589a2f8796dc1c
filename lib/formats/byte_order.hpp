#pragma once
// Numbers that were written in the other byte order, as big-endian machines do.

#include <cstddef>

namespace mha::io {

/// Reverses the bytes of each of `count` elements of `size` bytes, in place.
void swap_bytes(std::byte* data, std::size_t count, std::size_t size);

} // namespace mha::io
