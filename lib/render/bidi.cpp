#include <mha/render/font.hpp>

#include <mha/system/characters.hpp>

#include <fribidi/fribidi.h>
#include <utf8proc.h>

#include <algorithm>

namespace mha::render {

namespace {

/// Letters and the marks on them as one character, where there is one.
void compose(std::vector<std::uint32_t>& codes) {
  if (std::all_of(codes.begin(), codes.end(), [](std::uint32_t code) { return code < 0x300; }))
    return;
  std::vector<utf8proc_int32_t> all(codes.begin(), codes.end());
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(all.data(), static_cast<utf8proc_ssize_t>(all.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (count > 0) codes.assign(all.begin(), all.begin() + count);
}

/// Whether a character may turn the order of a line: Hebrew, Arabic, similar scripts, and their
/// forms.
bool may_turn(std::uint32_t code) {
  return (code >= 0x590 && code < 0x900) || (code >= 0xfb1d && code < 0xfe00) ||
         (code >= 0xfe70 && code < 0xff00) || (code >= 0x10800 && code < 0x11000) ||
         (code >= 0x1e800 && code < 0x1f000) || code == 0x200f;
}

} // namespace

std::vector<std::uint32_t> in_drawing_order(std::string_view text) {
  const std::u32string characters = utf32_of(text);
  std::vector<std::uint32_t> codes(characters.begin(), characters.end());
  compose(codes);
  if (std::none_of(codes.begin(), codes.end(), may_turn)) return codes;
  const auto length = static_cast<FriBidiStrIndex>(codes.size());
  std::vector<FriBidiChar> turned(codes.size() + 1);
  FriBidiParType direction = FRIBIDI_PAR_ON; // that of the first letter
  if (fribidi_log2vis(codes.data(), length, &direction, turned.data(), nullptr, nullptr, nullptr) ==
      0)
    return codes; // out of memory, or absurdly nested
  turned.pop_back();
  // Fillers, left where two letters became one.
  std::erase(turned, static_cast<FriBidiChar>(FRIBIDI_CHAR_FILL));
  return {turned.begin(), turned.end()};
}

} // namespace mha::render
