#include <mha/tokenizers/pre_tokenizers.hpp>

#include <mha/tokenizers/kinds.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

PreTokenizer pre_tokenizer_sequence(Fields& fields) {
  constexpr std::size_t most = 64; // one calls the next
  const JsonNode list = fields.need("pretokenizers");
  PreTokenizer steps;
  list.each_element("pretokenizers", [&](const JsonNode& node) {
    for (PreTokenize& step : read_pre_tokenizer(node)) steps.push_back(std::move(step));
    if (steps.size() > most) list.refuse(fmt::format("more than {} pre-tokenizers", most));
  });
  return steps;
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
