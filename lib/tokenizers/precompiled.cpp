// SentencePiece's table of replacements: a double-array trie of the replaced texts, then the
// replacements.

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <cstring>

#include <utf8proc.h>

namespace mha::tokenizers {

namespace {

std::string decode_base64(const JsonNode& node) {
  const std::string text = node.text("the table, in base64");
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) node.refuse("a table that is not base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

class Table {
public:
  explicit Table(const JsonNode& node) {
    const std::string bytes = decode_base64(node);
    std::uint32_t size = 0;
    if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
    if (bytes.size() < 4 || size % 4 != 0 || size == 0 || size > bytes.size() - 4)
      node.refuse("a table whose size is none");
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    texts_ = bytes.substr(4 + size);
    if (!texts_.empty() && texts_.back() != '\0') node.refuse("a table whose last text never ends");
    if (io::invalid_utf8(texts_) != std::string::npos)
      node.refuse("a table of text that is not UTF-8");
  }

  /// The replacement of a text, from the shortest entry that the text begins with.
  const char* find(std::string_view text) const {
    std::size_t at = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return nullptr;
      at ^= byte;
      if (at >= units_.size() || (units_[at] & 0x800000ffu) != byte) return nullptr;
      const std::uint32_t unit = units_[at];
      at ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (at >= units_.size()) return nullptr;
      const std::size_t place = units_[at] & 0x7fffffffu;
      const bool begins = place < texts_.size() && !continues_utf8(texts_[place]);
      return begins ? texts_.data() + place : nullptr;
    }
    return nullptr;
  }

private:
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200u) >> 6);
  }
  std::vector<std::uint32_t> units_;
  std::string texts_; ///< each ends in a zero byte
};

/// The end of the grapheme (the character that a reader sees) that begins at `first`.
std::size_t grapheme_end(std::string_view text, std::size_t first) {
  std::size_t at = first;
  auto before = static_cast<utf8proc_int32_t>(next_character(text, at));
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    std::size_t next = at;
    const auto code = static_cast<utf8proc_int32_t>(next_character(text, next));
    if (utf8proc_grapheme_break_stateful(before, code, &state)) break;
    before = code;
    at = next;
  }
  return at;
}

} // namespace

Normalizer precompiled(Fields& fields) {
  const auto node = fields.find("precompiled_charsmap");
  if (!node || node->text("the table").empty()) return [](AlignedText&) {};
  return [table = Table(*node)](AlignedText& text) {
    AlignedText result;
    result.begin = text.begin;
    const std::string_view bytes = text.bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t first = at;
      at = grapheme_end(bytes, first);
      result.check_growth();
      const char* whole = at - first < 6 ? table.find(bytes.substr(first, at - first)) : nullptr;
      if (whole) {
        result.put(std::string_view(whole), text.span(first, at));
        continue;
      }
      for (std::size_t c = first; c < at;) {
        const std::size_t begin = c;
        c += length_of(bytes[c]);
        if (const char* replacement = table.find(bytes.substr(begin, c - begin)))
          result.put(std::string_view(replacement), text.span(begin, c));
        else
          result.keep(text, begin, c);
      }
    }
    text = std::move(result);
  };
}

} // namespace mha::tokenizers
