// Tokens for display.

#include <mha/system/characters.hpp>
#include <mha/tokenizers/byte_level.hpp>
#include <mha/tokenizers/parts.hpp>
#include <mha/tokenizers/tokenizer.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>
#include <mha/system/error.hpp>

#include <algorithm>

namespace mha::tokenizers {

namespace {

/// The byte of "<0xE2>".
std::optional<char> fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = digit(piece[3]), low = digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

/// A piece with blanks for ▁, in one pass because a piece may consist of many marks.
std::string with_blanks(std::string_view piece) {
  constexpr std::string_view mark = "▁";
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t next = std::min(piece.find(mark, at), piece.size());
    text += piece.substr(at, next - at);
    if (next < piece.size()) text += ' ';
    at = next + mark.size();
  }
  return text;
}

/// The text of a piece, with bytes and blanks decoded.
std::string decoded(const Pipeline& parts, std::string piece) {
  if (parts.byte_fallback)
    if (const auto byte = fallback_byte(piece)) return {*byte};
  if (parts.byte_level)
    if (auto bytes = bytes_of_piece(piece)) piece = std::move(*bytes);
  if (!parts.continuing_prefix.empty() && piece.starts_with(parts.continuing_prefix) &&
      piece.size() > parts.continuing_prefix.size())
    piece.erase(0, parts.continuing_prefix.size());
  if (!parts.word_suffix.empty() && piece.ends_with(parts.word_suffix))
    piece.replace(piece.size() - parts.word_suffix.size(), std::string::npos, " ");
  return parts.marks_spaces && !parts.byte_level ? with_blanks(piece) : piece;
}

/// A character in a label.
std::string label_of(char32_t c) {
  if (c == ' ') return "␣";
  if (c == '\n') return "⏎";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  if (c < 0x20 || (c >= 0x7f && c < 0xa0))
    return fmt::format("\\x{:02x}", static_cast<unsigned>(c));
  // Other white space, and characters that look like a label's replacements.
  if (is_space(c) || (is_control(c) && c != 0x200d) || c == U'␣' || c == U'⏎')
    return fmt::format("\\u{{{:x}}}", static_cast<unsigned>(c));
  std::string same;
  append_utf8(same, c);
  return same;
}

/// Builds a label. A backslash of the text is doubled if it would begin an escape.
class Label {
public:
  void add(std::string_view shown, bool backslash = false) {
    constexpr std::string_view escapes = "\\trxu";
    if (backslash_ && escapes.find(shown[0]) != std::string_view::npos) text_ += '\\';
    text_ += shown;
    backslash_ = backslash;
  }
  std::string text() && { return std::move(text_); }

private:
  std::string text_;
  bool backslash_ = false; ///< the last character is a backslash of the text
};

} // namespace

std::string Tokenizer::text(int id) const {
  std::string piece = piece_of(id).value_or("");
  return parts_->added->find(id) ? piece : decoded(*parts_, std::move(piece));
}

std::string Tokenizer::label(int id) const {
  if (!piece_of(id)) return fmt::format("<no token {}>", id);
  const std::string whole = text(id);
  Label label;
  std::string_view rest = whole;
  while (!rest.empty()) {
    const std::string_view valid = rest.substr(0, io::invalid_utf8(rest));
    for (std::size_t at = 0; at < valid.size();) {
      const bool like_byte = fallback_byte(valid.substr(at, 6)).has_value();
      const char32_t c = next_character(valid, at);
      label.add(like_byte ? "\\x3c" : label_of(c), c == '\\');
    }
    rest.remove_prefix(valid.size());
    if (rest.empty()) break;
    label.add(fmt::format("<0x{:02X}>", static_cast<unsigned char>(rest[0])));
    rest.remove_prefix(1);
  }
  return std::move(label).text();
}

namespace {

/// Text as UTF-8, with bytes of incomplete characters as <0xE2>.
std::string in_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::string_view valid = bytes.substr(0, io::invalid_utf8(bytes));
    text += valid;
    bytes.remove_prefix(valid.size());
    if (bytes.empty()) break;
    text += fmt::format("<0x{:02X}>", static_cast<unsigned char>(bytes[0]));
    bytes.remove_prefix(1);
  }
  return text;
}

} // namespace

std::string Tokenizer::text_in_utf8(int id) const {
  if (!piece_of(id)) return fmt::format("<no token {}>", id);
  return in_utf8(text(id));
}

std::string Tokenizer::text_in_utf8(std::span<const int> ids) const {
  std::string bytes;
  for (const int id : ids) {
    if (!bytes.empty() && begins_word(id)) bytes += ' ';
    bytes += piece_of(id) ? text(id) : fmt::format("<no token {}>", id);
  }
  return in_utf8(bytes);
}

bool Tokenizer::begins_word(int id) const {
  const std::string& prefix = parts_->continuing_prefix;
  return !prefix.empty() && !piece_of(id).value_or("").starts_with(prefix);
}

} // namespace mha::tokenizers
