#include <mha/tokenizers/post_processors.hpp>

#include <mha/tokenizers/kinds.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

/// Each goes around what the one before made.
TokenTemplate post_processor_sequence(Fields& fields) {
  TokenTemplate inner{std::nullopt};
  const JsonNode list = fields.need("processors");
  for (const JsonNode& node : list.elements("processors")) {
    TokenTemplate whole;
    for (const auto& place : read_post_processor(node)) {
      if (place)
        whole.push_back(place);
      else
        whole.insert(whole.end(), inner.begin(), inner.end());
      if (whole.size() > longest_template)
        list.refuse("more special tokens than any tokenizer means");
    }
    inner = std::move(whole);
  }
  return inner;
}

constexpr std::array<Kind<TokenTemplate>, 5> post_processor_kinds{{
    {"BertProcessing", bert_template},
    {"ByteLevel", byte_level_template},
    {"RobertaProcessing", roberta_template},
    {"Sequence", post_processor_sequence},
    {"TemplateProcessing", processing_template},
}};

/// ["[CLS]", 101].
int read_token(const JsonNode& node) {
  const std::vector<JsonNode> parts = node.elements("a token with its number");
  if (parts.size() != 2) node.refuse("a token and its number expected");
  parts[0].text("a token");
  return parts[1].integer("a token's number", most_id);
}

} // namespace

TokenTemplate read_post_processor(const JsonNode& node) {
  return read_kind<TokenTemplate>(node, "post-processor", post_processor_kinds);
}

TokenTemplate bert_template(Fields& fields) {
  const int last = read_token(fields.need("sep")), first = read_token(fields.need("cls"));
  return {first, std::nullopt, last};
}

TokenTemplate roberta_template(Fields& fields) {
  fields.ignore({"trim_offsets", "add_prefix_space"}); // tokens cover the text here, blanks too
  return bert_template(fields);
}

TokenTemplate byte_level_template(Fields& fields) {
  fields.ignore({"trim_offsets", "add_prefix_space", "use_regex"});
  return {std::nullopt};
}

} // namespace mha::tokenizers
