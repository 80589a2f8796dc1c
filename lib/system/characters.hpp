#pragma once
// Characters of UTF-8, and which of them must not reach a terminal as they are.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mha {

/// The first character of a text that is not empty.
struct Utf8 {
  std::size_t bytes = 1;
  bool valid = false; ///< if not, the first byte belongs to no character
  char32_t code = 0;
};
Utf8 first_utf8(std::string_view text);
/// The characters of a text; U+FFFD for a byte that is no UTF-8.
std::u32string utf32_of(std::string_view text);
/// Appends a character as UTF-8.
void append_utf8(std::string& text, std::uint32_t code);
/// Whether a byte of UTF-8 is a continuation byte (10xxxxxx): any of a character but the first.
constexpr bool continues_utf8(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}
/// Of ASCII alone, in every locale.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr char ascii_upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
/// Whether a text is digits alone, 1 to 8 of them, as numbers of layers have: "12".
bool is_number(std::string_view text);
/// The text with ASCII's letters in lower case.
std::string lowered(std::string_view text);
/// A name's letters and digits of ASCII in lower case, by which spellings are compared:
/// "key_Padding-mask" → "keypaddingmask".
std::string bare_letters(std::string_view name);

/// Whether all characters are ASCII's visible ones and spaces: each a byte and a column.
bool is_plain_ascii(std::string_view text);

/// Characters that do something instead of being seen, and so never reach a terminal or a picture
/// as they are: controls (C0, DEL, C1: some begin escape sequences), marks that turn the direction
/// of a line, line and paragraph separators, and what is no character at all (U+FFFE and its kind,
/// which XML does not allow).
bool is_unsafe(char32_t code);
/// Such a character as JSON and JavaScript write it: \u001b, or two of them beyond U+FFFF.
std::string json_escape(char32_t code);
/// What stands for a character that must not be shown: json_escape of an unsafe one, U+FFFD for a
/// byte that is no UTF-8; nothing for others.
std::optional<std::string> safe_escape(const Utf8& character);
/// A text with `escape(character, its bytes)` in the place of each character for which that returns
/// a text.
template <class Escape> std::string escaped(std::string_view text, const Escape& escape) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8 character = first_utf8(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    if (const std::optional<std::string> other = escape(character, bytes))
      result += *other;
    else
      result += bytes;
    text.remove_prefix(character.bytes);
  }
  return result;
}
/// A text with others in the place of some of ASCII's characters: {{'<', "&lt;"}}.
std::string with_replaced(std::string_view text,
                          std::initializer_list<std::pair<char, std::string_view>> others);
/// "\"the\"", with the escapes that JSON asks for and such characters as \uNNNN; a byte that is no
/// UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
/// A text of JSON with every such character but newlines and tabs escaped; these stand in strings
/// only, where that says the same.
std::string safe_json(std::string_view text);
/// A word for a shell, quoted where it must be, so that a reader can copy a command line.
std::string shell_word(std::string_view word);

} // namespace mha
