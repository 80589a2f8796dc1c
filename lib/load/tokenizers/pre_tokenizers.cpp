#include <mha/load/tokenizers/pre_tokenizers.hpp>

#include <mha/load/tokenizers/kinds.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

PreTokenizer pre_tokenizer_sequence(Fields& fields) {
  return read_sequence<PreTokenizer>(fields, "pretokenizers", read_pre_tokenizer);
}

constexpr std::array<Kind<PreTokenizer>, 13> pre_tokenizer_kinds{{
    {"BertPreTokenizer", bert_words},
    {"ByteLevel", byte_level_words},
    {"CharDelimiterSplit", delimiter},
    {"Delimiter", delimiter},
    {"Digits", digits},
    {"FixedLength", fixed_length},
    {"Metaspace", metaspace},
    {"Punctuation", punctuation},
    {"Sequence", pre_tokenizer_sequence},
    {"Split", split},
    {"UnicodeScripts", unicode_scripts},
    {"Whitespace", whitespace},
    {"WhitespaceSplit", whitespace_split},
}};

} // namespace

PreTokenizer read_pre_tokenizer(const JsonNode& node) {
  return read_kind<PreTokenizer>(node, "pre-tokenizer", pre_tokenizer_kinds);
}

} // namespace mha::tokenizers
