#pragma once
// Bytes as text, for what is embedded in pages and pictures.

#include <string>
#include <string_view>

namespace mha::render {

/// Base64 with padding (RFC 4648, section 4): text that HTML, SVG and URLs of data leave alone.
std::string base64(std::string_view bytes);

} // namespace mha::render
