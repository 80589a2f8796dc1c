// Templates of special tokens around a text, such as "[CLS] $A [SEP]", as post-processors have
// them.

#include <mha/tokenizers/special_tokens.hpp>

#include <mha/files/text.hpp>
#include <mha/tokenizers/fields.hpp>

#include <algorithm>
#include <array>
#include <map>

namespace mha::tokenizers {

namespace {

/// Longer templates are an error: in a sequence, each template that repeats the text doubles the
/// length.
constexpr std::size_t longest_template = 10'000;

/// {"[CLS]": {"id": "[CLS]", "ids": [101], "tokens": ["[CLS]"]}}.
std::map<std::string, std::vector<int>> read_tokens(const JsonNode& node) {
  std::map<std::string, std::vector<int>> tokens;
  for (const auto& [name, value] : node.members("the template's special tokens")) {
    Fields fields(value, fmt::format("the template's token '{}'", io::shown(name)));
    fields.ignore({"id", "tokens"});
    for (const JsonNode& id : fields.need("ids").elements("ids"))
      tokens[name].push_back(id.integer("a token's number", most_id));
    fields.finish();
  }
  return tokens;
}

TokenTemplate processing_template(Fields& fields) {
  std::map<std::string, std::vector<int>> tokens;
  if (const auto node = fields.find("special_tokens")) tokens = read_tokens(*node);
  fields.ignore({"pair"}); // here a text is always a single one
  TokenTemplate post_template;
  for (const JsonNode& node : fields.need("single").elements("the template")) {
    Fields place(node, "a place of the template");
    const auto token = place.find("SpecialToken"), text = place.find("Sequence");
    place.finish();
    if (!token == !text) node.refuse("a SpecialToken or a Sequence expected");
    Fields named(token ? *token : *text, "a place of the template");
    named.ignore({"type_id"});
    const JsonNode id = named.need("id");
    const std::string name = id.text("its id");
    named.finish();
    if (text) {
      if (name != "A") id.refuse("a template of a single text has Sequence \"A\" only");
      constexpr std::ptrdiff_t most = 16; // each holds the whole text once more
      if (std::ranges::count_if(post_template, [](const auto& part) { return !part; }) == most)
        node.refuse("the text is repeated too often");
      post_template.push_back(std::nullopt);
      continue;
    }
    const auto found = tokens.find(name);
    if (found == tokens.end())
      id.refuse(fmt::format("'{}' is not among the template's special_tokens", io::shown(name)));
    post_template.insert(post_template.end(), found->second.begin(), found->second.end());
    if (post_template.size() > longest_template) node.refuse("too many special tokens");
  }
  return post_template;
}

/// ["[CLS]", 101].
int read_token(const JsonNode& node) {
  const std::vector<JsonNode> parts = node.elements("a token with its number");
  if (parts.size() != 2) node.refuse("a token and its number expected");
  parts[0].text("a token");
  return parts[1].integer("a token's number", most_id);
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

/// Each template goes around the result of the previous one.
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
      if (whole.size() > longest_template) list.refuse("too many special tokens");
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

} // namespace

TokenTemplate read_post_processor(const JsonNode& node) {
  return read_kind<TokenTemplate>(node, "post-processor", post_processor_kinds);
}

} // namespace mha::tokenizers
