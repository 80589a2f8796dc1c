#include <mha/load/tokenizers/normalizers.hpp>

#include <mha/files/text.hpp>
#include <mha/load/tokenizers/kinds.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

Normalizer normalizer_sequence(Fields& fields) {
  return read_sequence<Normalizer>(fields, "normalizers", read_normalizer);
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
  };
}

} // namespace mha::tokenizers
