#include <mha/tokenizers/normalizers.hpp>

#include <mha/files/text.hpp>
#include <mha/tokenizers/byte_level.hpp>
#include <mha/tokenizers/split.hpp>
#include <mha/tokenizers/text_time.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

/// Chinese characters, which are written without spaces; not kana, not Hangul.
bool is_chinese(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return within(0x4e00, 0x9fff) || within(0x3400, 0x4dbf) || within(0x20000, 0x2a6df) ||
         within(0x2a700, 0x2b73f) || within(0x2b740, 0x2b81f) || within(0x2b920, 0x2ceaf) ||
         within(0xf900, 0xfaff) || within(0x2f800, 0x2fa1f);
}

void clean(char32_t c, ByteRange from, AlignedText& result) {
  const bool line = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xfffd || (!line && is_control(c))) return;
  result.put(line || is_space(c) ? U' ' : c, from);
}

void space_chinese(char32_t c, ByteRange from, AlignedText& result) {
  if (!is_chinese(c)) return result.put(c, from);
  result.put(U' ', {from.begin, from.begin});
  result.put(c, from);
  result.put(U' ', {from.end, from.end});
}

Normalizer normalizer_sequence(Fields& fields) {
  std::vector<Normalizer> list;
  fields.need("normalizers").each_element("normalizers", [&](const JsonNode& node) {
    list.push_back(read_normalizer(node));
  });
  return [list](AlignedText& text) {
    for (const Normalizer& step : list) step(text);
  };
}

constexpr std::array<Kind<Normalizer>, 14> normalizer_kinds{{
    {"BertNormalizer", bert_normalizer},
    {"ByteLevel", byte_level_normalizer},
    {"Lowercase", lowercase},
    {"NFC", nfc},
    {"NFD", nfd},
    {"NFKC", nfkc},
    {"NFKD", nfkd},
    {"Nmt", nmt},
    {"Precompiled", precompiled},
    {"Prepend", prepend},
    {"Replace", replace},
    {"Sequence", normalizer_sequence},
    {"Strip", strip},
    {"StripAccents", strip_accents},
}};

} // namespace

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

Normalizer bert_normalizer(const BertNormalizerSettings& settings) {
  std::vector<Normalizer> steps;
  if (settings.clean_text) steps.push_back(each_character(clean));
  if (settings.handle_chinese_chars) steps.push_back(each_character(space_chinese));
  if (settings.strip_accents.value_or(settings.lowercase)) {
    steps.push_back([](AlignedText& text) { normalize(text, false, false); });
    steps.push_back(each_character([](char32_t c, ByteRange from, AlignedText& result) {
      if (!is_nonspacing_mark(c)) result.put(c, from);
    }));
  }
  if (settings.lowercase)
    steps.push_back(each_character([](char32_t c, ByteRange from, AlignedText& result) {
      for (const char32_t small : lower_case(c)) result.put(small, from);
    }));
  return [steps](AlignedText& text) {
    for (const Normalizer& step : steps) step(text);
  };
}

BertNormalizerSettings read_bert_settings(Fields& fields) {
  BertNormalizerSettings settings;
  settings.clean_text = fields.boolean("clean_text", true);
  settings.handle_chinese_chars = fields.boolean("handle_chinese_chars", true);
  settings.lowercase = fields.boolean("lowercase", true);
  if (fields.find("strip_accents")) settings.strip_accents = fields.boolean("strip_accents", true);
  return settings;
}

Normalizer bert_normalizer(Fields& fields) {
  return bert_normalizer(read_bert_settings(fields));
}

Normalizer read_normalizer(const JsonNode& node) {
  return [normalizer =
              read_kind<Normalizer>(node, "normalizer", normalizer_kinds)](AlignedText& text) {
    normalizer(text);
    text.check_growth();
    if (TextTime* const time = TextTime::of_text()) time->require("list of normalizers");
  };
}

} // namespace mha::tokenizers
