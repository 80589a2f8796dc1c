#pragma once
// Numbers as text.

#include <charconv>
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

} // namespace mha
