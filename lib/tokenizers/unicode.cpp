#include <mha/tokenizers/unicode.hpp>

#include <mha/system/characters.hpp>

#include <utf8proc.h>

namespace mha::tokenizers {

namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

} // namespace

std::size_t length_of(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const std::size_t length = length_of(text[at]);
  char32_t code = static_cast<unsigned char>(text[at]);
  if (length > 1) code &= 0x7fu >> length;
  for (std::size_t i = 1; i < length; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fu);
  at += length;
  return code;
}

std::size_t characters_in(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += !continues_utf8(c);
  return n;
}

char32_t character_before(std::string_view text, std::size_t end) {
  if (end == 0) return 0;
  std::size_t at = end - 1;
  while (at > 0 && continues_utf8(text[at])) --at;
  return next_character(text, at);
}

std::size_t trim_end(std::string_view text, std::size_t end, std::size_t first) {
  while (end > first) {
    if (!is_space(character_before(text, end))) break;
    do --end;
    while (end > first && continues_utf8(text[end]));
  }
  return end;
}

std::size_t trim_begin(std::string_view text, std::size_t begin) {
  for (std::size_t at = begin; at < text.size(); begin = at)
    if (!is_space(next_character(text, at))) break;
  return begin;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0d) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z');
  switch (category(c)) {
  case UTF8PROC_CATEGORY_PC:
  case UTF8PROC_CATEGORY_PD:
  case UTF8PROC_CATEGORY_PS:
  case UTF8PROC_CATEGORY_PE:
  case UTF8PROC_CATEGORY_PI:
  case UTF8PROC_CATEGORY_PF:
  case UTF8PROC_CATEGORY_PO:
    return true;
  default:
    return false;
  }
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_control(char32_t c) {
  // BERT's notion is from before these signs of format.
  const bool later =
      c == 0x8e2 || c == 0x890 || c == 0x891 || c == 0x110cd || (c >= 0x13430 && c <= 0x1343f);
  if (later) return false;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CO;
}

bool is_nonspacing_mark(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_mark(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ME;
}

bool is_word(char32_t c) {
  if (c == 0x200c || c == 0x200d) return true;
  switch (category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    // Letters in circles and squares: symbols that are alphabetic.
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
  }
}

std::u32string lower_case(char32_t c) {
  if (c < 0x80) return {c >= 'A' && c <= 'Z' ? c + 32 : c};
  if (c == 0x130) return U"i\u0307";
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))};
}

} // namespace mha::tokenizers
