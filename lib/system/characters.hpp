#pragma once
// Characters of UTF-8, and which of them must be escaped before they reach a terminal.

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
/// The characters of a text; U+FFFD for a byte that is not UTF-8.
std::u32string utf32_of(std::string_view text);
/// Appends a character as UTF-8.
void append_utf8(std::string& text, std::uint32_t code);
/// Whether a byte of UTF-8 is a continuation byte (10xxxxxx), not the first of a character.
constexpr bool continues_utf8(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}
// These know ASCII alone, in every locale.
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
/// Whether a text consists of 1 to 8 digits, as the number of a layer does: "12".
bool is_number(std::string_view text);
/// The text with ASCII letters in lower case.
std::string lowered(std::string_view text);
/// The ASCII letters and digits of a name, in lower case, by which spellings are compared:
/// "key_Padding-mask" → "keypaddingmask".
std::string bare_letters(std::string_view name);

/// Whether all characters are visible ASCII or spaces, so that each is one byte and one column.
bool is_plain_ascii(std::string_view text);

/// Characters that have an effect instead of a shape, and so must be escaped for a terminal or a
/// picture: controls (C0, DEL and C1, some of which begin escape sequences), marks that change the
/// direction of a line, line and paragraph separators, and noncharacters such as U+FFFE, which XML
/// does not allow.
bool is_unsafe(char32_t code);
/// The escape of a character in JSON and JavaScript: \u001b, or a surrogate pair beyond U+FFFF.
std::string json_escape(char32_t code);
/// The replacement of a character that must not be shown: json_escape of an unsafe one, U+FFFD for
/// a byte that is not UTF-8. Nothing for other characters.
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
/// A text with some ASCII characters replaced: {{'<', "&lt;"}}.
std::string with_replaced(std::string_view text,
                          std::initializer_list<std::pair<char, std::string_view>> others);
/// A text in the quotes and with the escapes of JSON, unsafe characters as \uNNNN. A byte that is
/// not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
/// JSON with every unsafe character but newlines and tabs escaped. Valid JSON has the escaped ones
/// only inside strings, where the escape means the same character.
std::string safe_json(std::string_view text);
/// A word for a shell, quoted where it must be, so that a reader can copy a command line.
std::string shell_word(std::string_view word);

} // namespace mha
