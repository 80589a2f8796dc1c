#include <mha/tokenizers/byte_level.hpp>

#include <mha/tokenizers/unicode.hpp>

#include <algorithm>
#include <array>

namespace mha::tokenizers {

namespace {

constexpr bool prints(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<char32_t, 256> characters = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) table[byte] = prints(byte) ? byte : next++;
  return table;
}();

} // namespace

char32_t character_of_byte(unsigned char byte) {
  return characters[byte];
}

std::optional<unsigned char> byte_of_character(char32_t c) {
  const auto found = std::ranges::find(characters, c);
  if (found == characters.end()) return std::nullopt;
  return static_cast<unsigned char>(found - characters.begin());
}

std::optional<std::string> bytes_of_piece(std::string_view piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const auto byte = byte_of_character(next_character(piece, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

} // namespace mha::tokenizers
