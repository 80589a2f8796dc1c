#pragma once
// Numbers as text.

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace mha {

/// Reads a whole text as a number, as std::from_chars does: without a locale, blanks or a '+'.
/// `base` is the base of integers. Returns nothing for other texts and if the type cannot hold it.
template <class Number, class... Base>
std::optional<Number> parse_number(std::string_view text, Base... base) {
  Number value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base...);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

/// Reads the number at the start of a text like parse_number, and removes it from `text`. Returns
/// nothing and leaves `text` unchanged if there is none or if the type cannot hold it.
template <class Number, class... Base>
std::optional<Number> take_number(std::string_view& text, Base... base) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

} // namespace mha
