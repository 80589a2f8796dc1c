#pragma once
// Text in the order in which it is drawn from left to right.

#include <cstdint>
#include <string_view>
#include <vector>

namespace mha::render {

/// The characters of one line of UTF-8, composed (e + U+0301 is é), from left to right: Hebrew and
/// Arabic turned, brackets in them mirrored, Arabic letters in their joined forms. Marks follow
/// their letters. Bytes that are no UTF-8 are U+FFFD.
std::vector<std::uint32_t> in_drawing_order(std::string_view text);

} // namespace mha::render
