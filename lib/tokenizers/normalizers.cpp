#include <mha/tokenizers/normalizers.hpp>

#include <mha/files/text.hpp>
#include <mha/tokenizers/kinds.hpp>
#include <mha/tokenizers/text_time.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

Normalizer normalizer_sequence(Fields& fields) {
  std::vector<Normalizer> list;
  fields.need("normalizers").each_element("normalizers", [&](const JsonNode& node) {
    list.push_back(read_normalizer(node));
  });
  return [list](AlignedText& text) {
    for (const Normalizer& one : list) one(text);
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

Normalizer read_normalizer(const JsonNode& node) {
  return [one = read_kind<Normalizer>(node, "normalizer", normalizer_kinds)](AlignedText& text) {
    one(text);
    text.check_growth();
    if (TextTime* const time = TextTime::of_text()) time->require("list of normalizers");
  };
}

} // namespace mha::tokenizers
