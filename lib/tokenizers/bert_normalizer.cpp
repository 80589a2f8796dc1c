// BERT's normalizer: cleans, puts spaces around CJK characters, strips accents, lower case.

#include <mha/tokenizers/normal_forms.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/unicode.hpp>

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

} // namespace

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

} // namespace mha::tokenizers
