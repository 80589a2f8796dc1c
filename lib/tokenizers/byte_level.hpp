#pragma once
// Bytes as GPT-2 writes them: 256 printable characters, so that a vocabulary of bytes is text.

#include <optional>
#include <string>
#include <string_view>

namespace mha::tokenizers {

/// The character that stands for a byte: itself where it prints, else one from U+0100 on.
char32_t character_of_byte(unsigned char byte);
/// The byte that a character stands for.
std::optional<unsigned char> byte_of_character(char32_t c);
/// The bytes that a piece stands for; nothing where one of its characters is no byte.
std::optional<std::string> bytes_of_piece(std::string_view piece);

} // namespace mha::tokenizers
