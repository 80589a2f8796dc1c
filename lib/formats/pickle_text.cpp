#include <mha/formats/pickle_builder.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

/// The value of `count` hexadecimal digits.
std::uint32_t hex_value(std::string_view digits, std::size_t count, const RefusePickle& refuse) {
  const std::optional<std::uint32_t> value = parse_number<std::uint32_t>(digits, 16);
  if (digits.size() != count || !value) refuse("an escape without its digits");
  return *value;
}

} // namespace

std::string unquoted(std::string_view text, const RefusePickle& refuse) {
  if (text.size() < 2 || text.front() != text.back() || (text[0] != '\'' && text[0] != '"'))
    refuse("a string without its quotes");
  text = text.substr(1, text.size() - 2);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    if (++i == text.size()) refuse("a string that ends within an escape");
    constexpr std::string_view letters = "abfnrtv\\'\"", meant = "\a\b\f\n\r\t\v\\'\"";
    if (const std::size_t known = letters.find(text[i]); known != letters.npos)
      plain += meant[known];
    else if (text[i] == 'x')
      plain += static_cast<char>(hex_value(text.substr(i + 1, 2), 2, refuse)), i += 2;
    else
      refuse(fmt::format("an escape '\\{}' in a string", shown(text.substr(i, 1))));
  }
  return plain;
}

std::string unescaped_unicode(std::string_view text, const RefusePickle& refuse) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view two = text.substr(i, 2);
    const std::size_t digits = two == "\\u" ? 4 : two == "\\U" ? 8 : 0;
    std::uint32_t code = static_cast<unsigned char>(text[i]);
    if (digits > 0) {
      code = hex_value(text.substr(i + 2, digits), digits, refuse);
      i += 1 + digits;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      refuse("an escape that is not a character");
    append_utf8(plain, code);
  }
  return plain;
}

} // namespace mha::io
