#pragma once
// GPT-2's spelling of bytes as 256 printable characters, so that a vocabulary of bytes is text.

#include <optional>
#include <string>
#include <string_view>

namespace mha::tokenizers {

/// The character for a byte: the same one if it is printable, otherwise one from U+0100 on.
char32_t character_of_byte(unsigned char byte);
/// The byte that a character spells.
std::optional<unsigned char> byte_of_character(char32_t c);
/// The bytes that a piece spells; nothing if one of its characters spells no byte.
std::optional<std::string> bytes_of_piece(std::string_view piece);

} // namespace mha::tokenizers
