#include <mha/render/label.hpp>

#include <mha/render/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace mha::render {

namespace {

using Codes = std::vector<utf8proc_int32_t>;

/// The characters of a text, or nothing where it is not UTF-8.
std::optional<Codes> codes_of(std::string_view text) {
  Codes codes;
  while (!text.empty()) {
    const Utf8 character = first_utf8(text);
    if (!character.valid) return std::nullopt;
    codes.push_back(static_cast<utf8proc_int32_t>(character.code));
    text.remove_prefix(character.bytes);
  }
  return codes;
}

std::string text_of(utf8proc_int32_t code) {
  std::string text;
  append_utf8(text, static_cast<std::uint32_t>(code));
  return text;
}

/// The byte that a character of byte-level BPE encodes. Printable bytes are their own characters,
/// the other 68 (0–32, 127–160, 173) are U+0100 … U+0143 in their order.
std::optional<unsigned char> byte_of(utf8proc_int32_t code) {
  const auto printable = [](utf8proc_int32_t byte) {
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte <= 0xff && byte != 0xad);
  };
  if (printable(code)) return static_cast<unsigned char>(code);
  if (code < 0x100 || code > 0x143) return std::nullopt;
  const utf8proc_int32_t place = code - 0x100;
  if (place <= 0x20) return static_cast<unsigned char>(place);
  if (place <= 0x42) return static_cast<unsigned char>(place - 0x21 + 0x7f);
  return 0xad;
}

/// Whether a line break or a tab is next to a letter. Tokenizers keep those apart, so such a label
/// is a word spelt with the same characters: ĉu in Esperanto, čas in Czech.
bool breaks_a_word(std::string_view bytes) {
  const auto letter_at = [&](std::size_t i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const int lower = byte | 0x20;
    return byte >= 0x80 || (lower >= 'a' && lower <= 'z');
  };
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t')
      if ((i > 0 && letter_at(i - 1)) || (i + 1 < bytes.size() && letter_at(i + 1))) return true;
  return false;
}

/// The text that a label of byte-level BPE spells: Ġ is a space, Ċ a line break, Ã© an é. Letters
/// that would be a control character (ą) or a part of a character (é) are themselves.
std::string spelt(std::string_view label, const Codes& codes) {
  std::string bytes;
  bool known = true;
  for (utf8proc_int32_t code : codes) {
    const std::optional<unsigned char> byte = byte_of(code);
    known = known && byte;
    if (!byte) continue;
    const auto c = static_cast<char>(*byte);
    if (*byte == 0x7f || (*byte < 0x20 && c != '\n' && c != '\r' && c != '\t'))
      return std::string(label);
    bytes += c;
  }
  if (known && codes_of(bytes) && !breaks_a_word(bytes)) return bytes;
  std::size_t spaces = 0; // the bytes of a character that is cut, after spaces
  while (spaces < codes.size() && codes[spaces] == 0x120) ++spaces;
  return std::string(spaces, ' ').append(label.substr(2 * spaces));
}

/// "<0x0A>" of SentencePiece, where it is a character of ASCII.
std::optional<std::string> byte_token(std::string_view label) {
  if (label.size() != 6 || !label.starts_with("<0x") || label.back() != '>') return std::nullopt;
  const auto value = parse_number<unsigned>(label.substr(3, 2), 16);
  if (!value || *value >= 0x80) return std::nullopt;
  return std::string(1, static_cast<char>(*value));
}

/// The label with a tokenizer's marks replaced by their text.
std::string without_marks(std::string_view label) {
  if (const std::optional<std::string> byte = byte_token(label)) return *byte;
  const std::optional<Codes> codes = codes_of(label);
  if (!codes) return std::string(label);
  std::string text = spelt(label, *codes);
  for (std::size_t at = 0; (at = text.find("▁", at)) != std::string::npos; ++at)
    text.replace(at, std::string_view("▁").size(), " ");
  constexpr std::string_view piece = "##", end = "</w>";
  if (text.size() > piece.size() && text.starts_with(piece) && text[piece.size()] != '#' &&
      text[piece.size()] != ' ')
    text.erase(0, piece.size());
  if (text.size() > end.size() && text.ends_with(end)) text.resize(text.size() - end.size());
  return text;
}

bool is_break(utf8proc_int32_t code) {
  return code == '\n' || code == 0x2028 || code == 0x2029 || code == 0x85;
}
bool is_space(utf8proc_int32_t code) {
  return utf8proc_category(code) == UTF8PROC_CATEGORY_ZS;
}
bool is_blank(utf8proc_int32_t code) {
  return is_break(code) || is_space(code) || code == '\t';
}

/// A blank as a visible sign, or a plain space within a text.
std::string blank_text(utf8proc_int32_t code, bool seen) {
  if (is_break(code)) return "⏎";
  if (code == '\t') return "⇥";
  return seen ? "␣" : " ";
}

} // namespace

std::string readable(std::string_view label) {
  const std::string text = without_marks(label);
  const std::optional<Codes> all = codes_of(text);
  if (!all) return visible(text);
  Codes codes = *all;
  const bool only_blanks = std::all_of(codes.begin(), codes.end(), is_blank);
  // The mark for the space before a word is dropped; a space of the text itself is shown.
  const bool marked = !label.empty() && label.front() != ' ';
  if (!only_blanks && marked && codes.front() == ' ') codes.erase(codes.begin());
  // Format characters and marks have no width, or need a letter before them.
  const bool no_width = !codes.empty() && std::all_of(codes.begin(), codes.end(), [](auto code) {
    return !is_blank(code) &&
           (utf8proc_charwidth(code) == 0 || utf8proc_category(code) == UTF8PROC_CATEGORY_CF);
  });

  std::size_t first = 0, last = codes.size();
  while (first < last && is_blank(codes[first])) ++first;
  while (last > first && is_blank(codes[last - 1])) --last;
  std::string out;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const utf8proc_int32_t code = codes[i];
    if (code == '\r' && i + 1 < codes.size() && codes[i + 1] == '\n') continue;
    const utf8proc_category_t category = utf8proc_category(code);
    if (is_blank(code))
      out += blank_text(code, i < first || i >= last);
    else if (no_width && (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME))
      out += "◌" + text_of(code);
    else if (no_width && category == UTF8PROC_CATEGORY_CF)
      out += fmt::format("\\u{:04x}", code);
    else
      out += visible(text_of(code));
  }
  return out;
}

} // namespace mha::render
