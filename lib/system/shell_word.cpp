#include <mha/system/shell_word.hpp>

#include <mha/system/characters.hpp>

#include <fmt/core.h>

namespace mha {

namespace {

/// Whether a terminal shows all of a word as it is.
bool is_visible(std::string_view word) {
  while (!word.empty()) {
    const Utf8 character = first_utf8(word);
    if (!character.valid || is_unsafe(character.code)) return false;
    word.remove_prefix(character.bytes);
  }
  return true;
}

} // namespace

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
