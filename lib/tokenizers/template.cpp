// A template of special tokens, such as "[CLS] $A [SEP]".

#include <mha/tokenizers/post_processors.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <map>

namespace mha::tokenizers {

namespace {

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

} // namespace

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
      if (std::ranges::count_if(post_template, [](const auto& one) { return !one; }) == most)
        node.refuse("the text more often than any tokenizer means");
      post_template.push_back(std::nullopt);
      continue;
    }
    const auto found = tokens.find(name);
    if (found == tokens.end())
      id.refuse(fmt::format("'{}' is not among the template's special_tokens", io::shown(name)));
    post_template.insert(post_template.end(), found->second.begin(), found->second.end());
    if (post_template.size() > longest_template)
      node.refuse("more special tokens than any tokenizer means");
  }
  return post_template;
}

} // namespace mha::tokenizers
