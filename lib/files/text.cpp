#include <mha/files/text.hpp>

#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/unaligned.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace mha::io {

namespace {

/// The end of the ASCII characters from `at` on, found eight at a time.
std::size_t end_of_ascii(std::string_view text, std::size_t at) {
  while (text.size() - at >= sizeof(std::uint64_t) &&
         (unaligned<std::uint64_t>(text.data() + at) & 0x8080808080808080) == 0)
    at += sizeof(std::uint64_t);
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

} // namespace

std::string shown(std::string_view name) {
  if (name.size() <= 200 && is_plain_ascii(name)) return std::string(name);
  std::string text;
  while (!name.empty()) {
    if (text.size() > 200) return text + "…";
    const Utf8 character = first_utf8(name);
    const bool raw = character.valid && !is_unsafe(character.code);
    for (const char byte : name.substr(0, character.bytes)) {
      if (raw)
        text += byte;
      else
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    name.remove_prefix(character.bytes);
  }
  return text;
}

std::size_t invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const auto goes_on = [&](std::size_t at) { return at < text.size() && continues_utf8(text[at]); };
  std::size_t i = 0;
  while (i < text.size()) {
    // A fast path for characters of two or three bytes whose first byte decides that they are
    // valid.
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      i = end_of_ascii(text, i);
    } else if (lead >= 0xc2 && lead < 0xe0 && goes_on(i + 1)) {
      i += 2;
    } else if (lead > 0xe0 && lead < 0xf0 && lead != 0xed && goes_on(i + 1) && goes_on(i + 2)) {
      i += 3;
    } else {
      const Utf8 character = first_utf8(text.substr(i));
      if (!character.valid) return i;
      i += character.bytes;
    }
  }
  return std::string_view::npos;
}

std::string stem_of(std::string_view path) {
  if (path == "-" || path == "standard input") return "stdin";
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  path = path.substr(path.find_last_of('/') + 1);
  const std::size_t dot = path.find_last_of('.');
  return std::string(dot == 0 ? path : path.substr(0, dot));
}

std::string extension_of(std::string_view path) {
  path = path.substr(path.find_last_of('/') + 1);
  const std::size_t dot = path.find_last_of('.');
  if (dot == std::string_view::npos || dot == 0) return "";
  return lowered(path.substr(dot));
}

namespace {

template <class T> std::string shortest(T value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return fmt::format("{}", value);
}

} // namespace

std::string number_text(double value) {
  return shortest(value);
}
std::string number_text(float value) {
  return shortest(value);
}

std::string element_text(const Tensor& tensor, std::size_t index) {
  switch (tensor.dtype()) {
  case DType::boolean:
    return value_at(tensor, index) != 0 ? "true" : "false";
  case DType::f64:
    return number_text(value_at(tensor, index));
  case DType::f32:
  case DType::f16:
  case DType::bf16:
    return number_text(static_cast<float>(value_at(tensor, index)));
  case DType::u64:
    return fmt::format("{}", tensor.as<std::uint64_t>()[index]);
  case DType::i64:
    return fmt::format("{}", tensor.as<std::int64_t>()[index]);
  default:
    return fmt::format("{}", static_cast<std::int64_t>(value_at(tensor, index)));
  }
}

TextKind kind_of(std::string_view text) {
  if (text == "true" || text == "false") return TextKind::boolean;
  if (text == "NaN" || text == "Infinity" || text == "-Infinity") return TextKind::number;
  // JSON's grammar of numbers, in which "007", "+1" and ".5" are words.
  std::string_view rest = text.starts_with('-') ? text.substr(1) : text;
  const auto digits = [&] {
    const std::size_t count = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(count);
    return count;
  };
  const bool zero = rest.starts_with('0');
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return TextKind::words;
  if (rest.empty()) return parse_number<std::int64_t>(text) ? TextKind::integer : TextKind::words;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (digits() == 0) return TextKind::words;
  }
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
    if (digits() == 0) return TextKind::words;
  }
  if (!rest.empty()) return TextKind::words;
  return parse_number<double>(text) ? TextKind::number : TextKind::words;
}

double number_of(std::string_view text) {
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  double value = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void require_sensible(std::string_view where, const Shape& shape) {
  if (!is_one_of(std::size_t{0}, shape)) return;
  // Rows without numbers still count as tokens, and every token may attend to every other.
  const std::uint64_t most = std::uint64_t{1} << (shape.back() == 0 ? 12 : 20);
  std::uint64_t places = 1;
  for (const std::size_t length : shape)
    if (length > 0 && __builtin_mul_overflow(places, length, &places))
      return; // bytes_of() reports it
  if (places > most)
    fail("{}: shape {}: an axis is 0, so its {} places have no numbers; at most {} are "
         "accepted",
         where, to_string(shape), places, most);
}

std::optional<std::uint64_t> bytes_of(const Shape& shape, std::size_t size) {
  // Axes of length 0 are left out of the product, because strides must not overflow either. An
  // element counts as at least 8 bytes, as in Tensor.
  std::uint64_t product = std::max<std::uint64_t>(size, 8);
  bool none = false;
  for (const std::size_t length : shape) {
    none = none || length == 0;
    if (length > 0 && __builtin_mul_overflow(product, length, &product)) return std::nullopt;
  }
  if (product > std::uint64_t{1} << 62) return std::nullopt;
  return none ? 0 : product / std::max<std::uint64_t>(size, 8) * size;
}

std::string listed(const std::vector<std::string_view>& names) {
  constexpr std::size_t most = 12;
  const std::span first = std::span(names).first(std::min(names.size(), most));
  const std::string text = joined_texts(first, ", ", shown);
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

std::string ends_of_list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names.size() > 12 && i == 6) text += ", …", i = names.size() - 2;
    text += (text.empty() ? "" : ", ") + names[i];
  }
  return text;
}

std::shared_ptr<std::byte> memory(std::size_t size) {
  const auto block = std::make_shared<Tensor>(DType::u8, Shape{size});
  return {block, block->raw_mutable()};
}

} // namespace mha::io
