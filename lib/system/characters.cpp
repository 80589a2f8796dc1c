#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace mha {

namespace {

/// Length of the valid UTF-8 sequence at the start of `text`, or 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues_utf8(text[i])) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool beyond = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || beyond ? 0 : length;
}

/// Whether a terminal shows every character of a word.
bool is_visible(std::string_view word) {
  while (!word.empty()) {
    const Utf8 character = first_utf8(word);
    if (!character.valid || is_unsafe(character.code)) return false;
    word.remove_prefix(character.bytes);
  }
  return true;
}

} // namespace

Utf8 first_utf8(std::string_view text) {
  const std::size_t length = sequence_length(text);
  if (length == 0) return {1, false, 0};
  char32_t code = static_cast<unsigned char>(text[0]);
  if (length > 1) code &= 0x7fu >> length;
  for (std::size_t i = 1; i < length; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {length, true, code};
}

std::u32string utf32_of(std::string_view text) {
  std::u32string codes;
  while (!text.empty()) {
    const Utf8 character = first_utf8(text);
    codes += character.valid ? character.code : U'\uFFFD';
    text.remove_prefix(character.bytes);
  }
  return codes;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | (code >> 6));
  } else if (code < 0x10000) {
    add(0xe0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3f));
  } else {
    add(0xf0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3f));
    add(0x80 | ((code >> 6) & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

bool is_number(std::string_view text) {
  constexpr std::size_t most = 8;
  return !text.empty() && text.size() <= most && std::ranges::all_of(text, is_digit);
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), ascii_lower);
  return lower;
}

std::string bare_letters(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (is_letter(c) || is_digit(c)) letters += ascii_lower(c);
  return letters;
}

bool is_plain_ascii(std::string_view text) {
  bool plain = true; // without an early exit the compiler vectorizes the loop
  for (const char byte : text) plain &= static_cast<unsigned char>(byte - 0x20) < 0x5f;
  return plain;
}

bool is_unsafe(char32_t code) {
  const auto within = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  const bool control = code < 0x20 || within(0x7f, 0x9f);
  const bool direction =
      code == 0x061c || within(0x200e, 0x200f) || within(0x202a, 0x202e) || within(0x2066, 0x2069);
  const bool separator = within(0x2028, 0x2029);
  const bool noncharacter =
      (code & 0xfffe) == 0xfffe || within(0xfdd0, 0xfdef) || within(0xd800, 0xdfff);
  return control || direction || separator || noncharacter;
}

std::string json_escape(char32_t code) {
  const auto unit = [](char32_t value) {
    return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(value));
  };
  if (code < 0x10000) return unit(code);
  return unit(0xd800 + ((code - 0x10000) >> 10)) + unit(0xdc00 + (code & 0x3ff));
}

std::optional<std::string> safe_escape(const Utf8& character) {
  if (!character.valid) return "\xef\xbf\xbd";
  if (is_unsafe(character.code)) return json_escape(character.code);
  return std::nullopt;
}

std::string with_replaced(std::string_view text,
                          std::initializer_list<std::pair<char, std::string_view>> others) {
  std::string out;
  for (const char c : text) {
    const auto* const at = std::ranges::find(others, c, &std::pair<char, std::string_view>::first);
    if (at == others.end())
      out += c;
    else
      out += at->second;
  }
  return out;
}

std::string json_string(std::string_view text) {
  const auto escape = [](const Utf8& character,
                         std::string_view bytes) -> std::optional<std::string> {
    if (bytes == "\"" || bytes == "\\") return '\\' + std::string(bytes);
    if (bytes == "\n") return "\\n";
    if (bytes == "\t") return "\\t";
    return safe_escape(character);
  };
  return '"' + escaped(text, escape) + '"';
}

std::string safe_json(std::string_view text) {
  return escaped(text, [](const Utf8& character, std::string_view bytes) {
    const bool stays = !character.valid || bytes == "\n" || bytes == "\t";
    return stays ? std::nullopt : safe_escape(character);
  });
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_-./=:,@+%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos)
    return std::string(word);
  if (!is_visible(word)) { // so that a terminal shows it, and a shell reads it
    std::string escaped = "$'";
    for (const char c : word) {
      const bool raw = c >= ' ' && c < 0x7f && c != '\'' && c != '\\';
      escaped += raw ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return escaped + "'";
  }
  return "'" + with_replaced(word, {{'\'', "'\\''"}}) + "'";
}

} // namespace mha
