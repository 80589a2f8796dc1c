#include <mha/formats/json_scanner.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/json_mistake.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/unaligned.hpp>

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

namespace mha::io {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf"; // which some editors write

bool is_word_character(char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}

constexpr std::uint64_t each_byte = 0x0101010101010101;

/// Sets the highest bit of every zero byte. The subtraction may borrow from the byte above a zero
/// byte and then also mark a 1 there, so only the lowest mark is certain.
std::uint64_t zero_bytes(std::uint64_t word) {
  return (word - each_byte) & ~word & each_byte << 7;
}

} // namespace

const char* JsonScanner::plain_until(const char* at, const char* end) {
  // Eight bytes at a time, because vocabularies consist mostly of strings.
  static_assert(std::endian::native == std::endian::little);
  while (end - at >= 8) {
    const auto word = unaligned<std::uint64_t>(at);
    const std::uint64_t control = (word - each_byte * 0x20) & ~word & each_byte << 7,
                        found = control | zero_bytes(word ^ each_byte * '"') |
                                zero_bytes(word ^ each_byte * '\\');
    // Little-endian: the lowest mark is of the first byte, and false marks are only above a true
    // one.
    if (found != 0) return at + std::countr_zero(found) / 8;
    at += 8;
  }
  while (at != end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20) ++at;
  return at;
}

JsonLines::JsonLines(std::string_view text)
    : at_(text.data() + (text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0)) {}

std::string JsonLines::of(const char* place) {
  for (; at_ < place; ++at_)
    if (*at_ == '\n')
      ++line_, column_ = 1;
    else if (!continues_utf8(*at_))
      ++column_;
  return fmt::format("line {}, column {}", line_, column_);
}

JsonScanner::JsonScanner(std::string where, std::string_view text)
    : where_(std::move(where)), start_(text.data()), at_(start_), end_(start_ + text.size()) {
  if (text.starts_with(byte_order_mark)) at_ += byte_order_mark.size();
}

void JsonScanner::refuse(const Message& why, const char* at, JsonError::Kind kind) const {
  const std::string_view text(start_, static_cast<std::size_t>(end_ - start_));
  const auto byte = static_cast<std::size_t>(at - start_);
  throw JsonError(message("{}: {}: {}", where_, JsonLines(text).of(at), why), kind, byte + 1,
                  std::make_shared<const JsonLine>(json_line_at(text, byte)));
}

void JsonScanner::refuse_unexpected(std::string_view expected, const char* at) const {
  const std::string_view text(start_, static_cast<std::size_t>(end_ - start_));
  const JsonMistake mistake = json_mistake(text, static_cast<std::size_t>(at - start_), expected);
  refuse(mistake.words, start_ + mistake.at);
}

void JsonScanner::expect(char wanted, std::string_view what) {
  if (accept(wanted)) return;
  refuse_unexpected(fmt::format("{} expected", what), at_);
}

std::string JsonScanner::string() {
  expect('"', "a string");
  const char* opened = at_ - 1;
  std::string text;
  while (true) {
    const char* run = at_;
    at_ = plain_until(at_, end_);
    text.append(run, at_);
    if (at_ == end_) refuse("a string that never ends", opened);
    if (*at_ == '"') break;
    if (*at_ != '\\')
      refuse(fmt::format("a control character (\\x{:02x}) in a string{}", static_cast<int>(*at_),
                         *at_ == '\n' ? ": its closing quote is missing" : ""));
    escape(text);
  }
  ++at_;
  if (invalid_utf8(text) != std::string::npos) refuse("a string that is not UTF-8", opened);
  return text;
}

std::string_view JsonScanner::string(std::string& decoded) {
  const char* opened = (next(), at_);
  const std::string_view text = unchecked_string(decoded);
  if (invalid_utf8(text) != text.npos) refuse("a string that is not UTF-8", opened);
  return text;
}

std::string_view JsonScanner::unchecked_string(std::string& decoded) {
  if (next() == '"') {
    const char *begin = at_ + 1, *end = plain_until(begin, end_);
    if (end != end_ && *end == '"') {
      at_ = end + 1;
      return {begin, static_cast<std::size_t>(end - begin)};
    }
  }
  return decoded = string();
}

std::uint32_t JsonScanner::hex4() {
  std::uint32_t code = 0;
  const char* last = end_ - at_ < 4 ? end_ : at_ + 4;
  const auto parsed = std::from_chars(at_, last, code, 16);
  if (parsed.ptr != at_ + 4) refuse("four hexadecimal digits expected after \\u");
  at_ += 4;
  return code;
}

void JsonScanner::escape(std::string& text) {
  const char* begin = at_++;
  const char letter = at_ == end_ ? '\0' : *at_++;
  constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  const std::size_t found = letters.find(letter);
  if (letter != '\0' && found != std::string_view::npos) {
    text += meant[found];
    return;
  }
  if (letter != 'u') refuse("an escape that JSON does not have", begin);
  std::uint32_t code = hex4();
  if (code >= 0xd800 && code < 0xdc00 && end_ - at_ >= 2 && at_[0] == '\\' && at_[1] == 'u') {
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) refuse("half of a surrogate pair", begin);
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xd800 && code < 0xe000) {
    refuse("half of a surrogate pair", begin);
  }
  append_utf8(text, code);
}

std::string_view JsonScanner::word() {
  next();
  const char* begin = at_;
  if (at_ != end_ && *at_ == '-') ++at_; // -Infinity
  while (at_ != end_ && is_word_character(*at_)) ++at_;
  return {begin, static_cast<std::size_t>(at_ - begin)};
}

std::string_view JsonScanner::number_text() {
  next();
  const char* at = at_;
  while (at != end_ && (is_word_character(*at) || *at == '.' || *at == '-' || *at == '+')) ++at;
  return {at_, static_cast<std::size_t>(at - at_)};
}

double JsonScanner::number() {
  next();
  const char* begin = at_;
  // Most numbers are only a few digits.
  constexpr int most_fast_digits = 9;
  std::uint32_t digits_value = 0;
  const char* at = begin;
  while (at != end_ && at - begin < most_fast_digits && is_digit(*at))
    digits_value = digits_value * 10 + static_cast<std::uint32_t>(*at++ - '0');
  const bool alone = at == end_ || (!is_word_character(*at) && *at != '.');
  if (at != begin && alone && (*begin != '0' || at - begin == 1)) {
    at_ = at;
    return digits_value;
  }
  const char* digits = begin != end_ && *begin == '-' ? begin + 1 : begin;
  if (digits == end_ || !is_digit(*digits)) refuse_unexpected("a number expected", at_);
  if (*digits == '0' && end_ - digits > 1 && is_digit(digits[1]))
    refuse_unexpected("a number with a leading zero", at_);
  double value = 0;
  const auto parsed = std::from_chars(begin, end_, value);
  if (parsed.ptr[-1] == '.') refuse_unexpected("digits expected after the point", begin);
  if (parsed.ec == std::errc::result_out_of_range) {
    // from_chars reports overflow and underflow alike; strtod_l returns ±HUGE_VAL or a value near
    // 0. In the C locale, as the decimal point of the host's locale may be a comma.
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    value = strtod_l(std::string(begin, parsed.ptr).c_str(), nullptr, plain);
    if (value > 1 || value < -1)
      refuse("a number beyond float64; \"Infinity\" if that is meant", begin,
             JsonError::Kind::number);
  }
  at_ = parsed.ptr;
  if (at_ != end_ && (is_word_character(*at_) || *at_ == '.'))
    refuse_unexpected("a number expected", begin);
  return value;
}

template <class Integer> Integer JsonScanner::integer(std::string_view what) {
  next();
  Integer value = 0;
  const auto parsed = std::from_chars(at_, end_, value);
  const bool zero = at_ != end_ && *at_ == '0' && parsed.ptr - at_ > 1;
  const bool more = parsed.ptr != end_ && (is_word_character(*parsed.ptr) || *parsed.ptr == '.');
  if (parsed.ec != std::errc() || zero || more) refuse(fmt::format("{} expected", what));
  at_ = parsed.ptr;
  return value;
}
template std::int64_t JsonScanner::integer(std::string_view);
template std::uint64_t JsonScanner::integer(std::string_view);

void JsonScanner::finish() {
  if (next() != '\0' || at_ != end_)
    refuse_unexpected("more text after the end of the JSON value", at_);
}

} // namespace mha::io
