// Tokens for human eyes.

#include <mha/load/tokenizers/byte_level.hpp>
#include <mha/load/tokenizers/parts.hpp>
#include <mha/load/tokenizers/tokenizer.hpp>
#include <mha/load/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>
#include <mha/system/error.hpp>

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

/// What a piece stands for, bytes and blanks resolved.
std::string meant(const Pipeline& parts, std::string piece) {
  if (const auto byte = fallback_byte(piece)) return {*byte};
  if (parts.byte_level)
    if (auto bytes = bytes_of_piece(piece)) piece = std::move(*bytes);
  if (!parts.continuing_prefix.empty() && piece.starts_with(parts.continuing_prefix) &&
      piece.size() > parts.continuing_prefix.size())
    piece.erase(0, parts.continuing_prefix.size());
  if (!parts.word_suffix.empty() && piece.ends_with(parts.word_suffix))
    piece.replace(piece.size() - parts.word_suffix.size(), std::string::npos, " ");
  if (parts.marks_blanks && !parts.byte_level)
    for (std::size_t at = 0; (at = piece.find("▁", at)) != std::string::npos;)
      piece.replace(at, std::string_view("▁").size(), " ");
  return piece;
}

void put_visible(std::string& label, char32_t c) {
  if (c == ' ')
    label += "␣";
  else if (c == '\n')
    label += "⏎";
  else if (c == '\t')
    label += "\\t";
  else if (c == '\r')
    label += "\\r";
  else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
    label += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
  else if (is_space(c) || (is_control(c) && c != 0x200d))
    label += fmt::format("\\u{{{:x}}}", static_cast<unsigned>(c)); // blanks that look like others
  else
    io::append_utf8(label, c);
}

} // namespace

std::string Tokenizer::label(int id) const {
  const auto piece = piece_of(id);
  if (!piece) return fmt::format("<no token {}>", id);
  const std::string text = parts_->added->find(id) ? *piece : meant(*parts_, *piece);
  std::string label;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view valid = rest.substr(0, io::invalid_utf8(rest));
    for (std::size_t at = 0; at < valid.size();) put_visible(label, next_character(valid, at));
    rest.remove_prefix(valid.size());
    if (rest.empty()) break;
    label += fmt::format("<0x{:02X}>", static_cast<unsigned char>(rest[0]));
    rest.remove_prefix(1);
  }
  return label;
}

} // namespace mha::tokenizers
