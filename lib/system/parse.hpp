#pragma once
// Numbers as text.

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace mha {

/// The number that the whole of a text is, as std::from_chars reads it: in no locale, without
/// blanks or a '+'; `base` is that of integers. Nothing for other texts and for a number beyond the
/// type.
template <class Number, class... Base>
std::optional<Number> parse_number(std::string_view text, Base... base) {
  Number value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base...);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

/// The number that a text begins with, as parse_number reads it; `text` becomes what is behind it.
/// Nothing, and `text` stays, where it begins with none or with one beyond the type.
template <class Number, class... Base>
std::optional<Number> take_number(std::string_view& text, Base... base) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

} // namespace mha
