// Normalizers that look at characters one by one, or at the ends of the text.

#include <mha/tokenizers/byte_level.hpp>
#include <mha/tokenizers/normal_forms.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/pattern.hpp>
#include <mha/tokenizers/unicode.hpp>

namespace mha::tokenizers {

Normalizer each_character(std::function<void(char32_t, ByteRange, AlignedText&)> change) {
  return [change = std::move(change)](AlignedText& text) {
    AlignedText result;
    result.begin = text.begin;
    result.bytes.reserve(text.bytes.size());
    result.from.reserve(text.bytes.size());
    for (std::size_t at = 0; at < text.bytes.size();) {
      const std::size_t first = at;
      const char32_t c = next_character(text.bytes, at);
      change(c, text.span(first, at), result);
    }
    text = std::move(result);
  };
}

Normalizer lowercase(Fields&) {
  return each_character([](char32_t c, ByteRange from, AlignedText& result) {
    for (const char32_t small : lower_case(c)) result.put(small, from);
  });
}

Normalizer byte_level_normalizer(Fields&) {
  return [](AlignedText& text) {
    AlignedText result;
    result.begin = text.begin;
    for (std::size_t i = 0; i < text.bytes.size(); ++i)
      result.put(character_of_byte(static_cast<unsigned char>(text.bytes[i])), text.from[i]);
    text = std::move(result);
  };
}

Normalizer strip_accents(Fields&) {
  return each_character([](char32_t c, ByteRange from, AlignedText& result) {
    if (!is_mark(c)) result.put(c, from);
  });
}

Normalizer nmt(Fields&) {
  return each_character([](char32_t c, ByteRange from, AlignedText& result) {
    const bool dropped = (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f ||
                         c == 0x8f || c == 0x9f;
    const bool blank = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                       (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xfeff || c == 0xfffd;
    if (!dropped) result.put(blank ? U' ' : c, from);
  });
}

Normalizer nfc(Fields&) {
  return [](AlignedText& text) { normalize(text, false, true); };
}
Normalizer nfd(Fields&) {
  return [](AlignedText& text) { normalize(text, false, false); };
}
Normalizer nfkc(Fields&) {
  return [](AlignedText& text) { normalize(text, true, true); };
}
Normalizer nfkd(Fields&) {
  return [](AlignedText& text) { normalize(text, true, false); };
}

Normalizer prepend(Fields& fields) {
  const std::string before = fields.need("prepend").text("what is prepended");
  return [before](AlignedText& text) { text.prepend(before); };
}

Normalizer strip(Fields& fields) {
  const bool left = fields.need("strip_left").boolean("strip_left");
  const bool right = fields.need("strip_right").boolean("strip_right");
  return [left, right](AlignedText& text) {
    const std::size_t size = text.bytes.size(), first = left ? trim_begin(text.bytes, 0) : 0,
                      last = right ? trim_end(text.bytes, size, first) : size;
    const std::uint32_t begin = text.begin;
    text = text.part(first, last);
    text.begin = begin;
  };
}

Normalizer replace(Fields& fields) {
  const Pattern pattern = read_pattern(fields.need("pattern"));
  const std::string content = fields.need("content").text("what replaces it");
  return [pattern, content](AlignedText& text) {
    AlignedText result;
    result.begin = text.begin;
    for (const Match& match : pattern(text.bytes)) {
      if (match.found)
        result.put(content, match.begin < match.end || result.from.empty()
                                ? text.span(match.begin, match.end)
                                : result.from.back());
      else
        result.keep(text, match.begin, match.end);
      result.check_growth();
    }
    text = std::move(result);
  };
}

} // namespace mha::tokenizers
