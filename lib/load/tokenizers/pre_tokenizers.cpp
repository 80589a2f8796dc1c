#include <mha/load/tokenizers/pre_tokenizers.hpp>

#include <mha/load/tokenizers/kinds.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

PreTokenizer sequence(Fields& fields) {
  std::vector<PreTokenizer> list;
  for (const JsonNode& node : fields.need("pretokenizers").elements("pretokenizers"))
    list.push_back(read_pre_tokenizer(node));
  return [list](std::vector<AlignedText>& pieces) {
    for (const PreTokenizer& one : list) one(pieces);
  };
}

constexpr std::array<Kind<PreTokenizer>, 13> kinds{{
    {"BertPreTokenizer", bert_words},
    {"ByteLevel", byte_level_words},
    {"CharDelimiterSplit", delimiter},
    {"Delimiter", delimiter},
    {"Digits", digits},
    {"FixedLength", fixed_length},
    {"Metaspace", metaspace},
    {"Punctuation", punctuation},
    {"Sequence", sequence},
    {"Split", split},
    {"UnicodeScripts", unicode_scripts},
    {"Whitespace", whitespace},
    {"WhitespaceSplit", whitespace_split},
}};

} // namespace

PreTokenizer read_pre_tokenizer(const JsonNode& node) {
  return read_kind<PreTokenizer>(node, "pre-tokenizer", kinds);
}

} // namespace mha::tokenizers
