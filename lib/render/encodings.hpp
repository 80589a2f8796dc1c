#pragma once
// Bytes of pictures: PNG by libpng, and base64 for pages and SVG that embed them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mha::render {

/// 8 bits a channel, row after row; `channels` 3 is RGB, 4 RGBA. Throws Error.
std::string png_bytes(std::span<const std::uint8_t> pixels, std::size_t width, std::size_t height,
                      std::size_t channels);

/// Base64 with padding (RFC 4648, section 4): text that HTML, SVG and URLs of data leave alone.
std::string base64(std::string_view bytes);

} // namespace mha::render
