#pragma once
// PNG: pixels to the bytes of a file, by libpng.

#include <cstdint>
#include <span>
#include <string>

namespace mha::render {

/// 8 bits a channel, row after row; `channels` 3 is RGB, 4 RGBA. Throws Error.
std::string png_bytes(std::span<const std::uint8_t> pixels, std::size_t width, std::size_t height,
                      std::size_t channels);

} // namespace mha::render
