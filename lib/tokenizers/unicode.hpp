#pragma once
// Unicode properties of characters, and iteration over UTF-8.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// The character at byte `at` of valid UTF-8; moves `at` to the next one.
char32_t next_character(std::string_view text, std::size_t& at);
/// The length in bytes of a character, from its first byte in valid UTF-8.
std::size_t length_of(char lead);
/// The number of characters in valid UTF-8.
std::size_t characters_in(std::string_view text);
/// The character before byte `end` of valid UTF-8, or 0 at the beginning.
char32_t character_before(std::string_view text, std::size_t end);
/// The start of the white space that ends at byte `end`, but not before `first`.
std::size_t trim_end(std::string_view text, std::size_t end, std::size_t first);
/// The end of the white space that begins at byte `begin`.
std::size_t trim_begin(std::string_view text, std::size_t begin);

bool is_space(char32_t c);           ///< White_Space
bool is_punctuation(char32_t c);     ///< any P*, and ASCII's signs such as $ + < ^
bool is_numeric(char32_t c);         ///< Nd, Nl, No
bool is_control(char32_t c);         ///< Cc, Cf, Co
bool is_mark(char32_t c);            ///< Mn, Mc, Me
bool is_nonspacing_mark(char32_t c); ///< Mn
bool is_word(char32_t c);            ///< letters, marks, decimal digits, connecting signs

/// The lower case: one character, or two for İ.
std::u32string lower_case(char32_t c);

} // namespace mha::tokenizers
