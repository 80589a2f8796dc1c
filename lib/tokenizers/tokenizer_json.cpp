#include <mha/tokenizers/tokenizer_files.hpp>

#include <mha/tokenizers/models.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/special_tokens.hpp>
#include <mha/tokenizers/text_time.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <map>

namespace mha::tokenizers {

namespace {

AddedToken read_added_token(const JsonNode& node, const Vocabulary& vocabulary) {
  Fields fields(node, "an added token");
  AddedToken token;
  const JsonNode id = fields.need("id");
  token.id = id.integer("an added token's number", most_id);
  token.content = fields.need("content").text("an added token's content");
  token.single_word = fields.boolean("single_word", false);
  token.lstrip = fields.boolean("lstrip", false);
  token.rstrip = fields.boolean("rstrip", false);
  token.special = fields.boolean("special", false);
  token.normalized = fields.boolean("normalized", !token.special);
  fields.finish();
  const auto known = vocabulary.id_of(token.content);
  if (known && *known != token.id)
    id.refuse(fmt::format("the added token '{}' has the number {} here and {} in the vocabulary",
                          io::shown(token.content), token.id, *known));
  return token;
}

std::vector<AddedToken> read_added_tokens(const JsonNode& node, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  std::map<int, std::string> by_id;
  std::map<std::string, int> by_content;
  for (const JsonNode& entry : node.elements("the list of added tokens")) {
    AddedToken token = read_added_token(entry, vocabulary);
    if (const auto other = by_id.emplace(token.id, token.content); !other.second)
      entry.refuse(fmt::format("the added tokens '{}' and '{}' have both the number {}",
                               io::shown(other.first->second), io::shown(token.content), token.id));
    if (!by_content.emplace(token.content, token.id).second)
      entry.refuse(fmt::format("the added token '{}' appears twice", io::shown(token.content)));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// Warns if Transformers would give another id: it numbers tokens that the vocabulary lacks
/// consecutively after the vocabulary's size, whatever the file has.
void note_numbers(const std::vector<AddedToken>& tokens, Pipeline& parts) {
  const Vocabulary& vocabulary = parts.model->vocabulary();
  int next = static_cast<int>(vocabulary.count());
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    const std::optional<int> known = vocabulary.id_of(token.content);
    if (!known && token.id != next) {
      parts.notes.push_back(warning(
          fmt::format("tokenizer.json gives the added token '{}' the number {}, which counts here; "
                      "Transformers gives it the next one, {}",
                      io::shown(token.content), token.id, next)));
      return;
    }
    next = std::max(next, token.id + 1);
  }
}

/// Whether a part, or one inside it, has a type that decides how pieces are decoded for display.
bool mentions_type(const JsonNode& node, std::string_view type) {
  bool found = false;
  if (node.is_object())
    node.each_member("an object", [&](std::string_view key, const JsonNode& value) {
      found = found || (key == "type" && value.is_string() && value.text("a type") == type) ||
              mentions_type(value, type);
    });
  else if (node.is_array())
    node.each_element("a list",
                      [&](const JsonNode& value) { found = found || mentions_type(value, type); });
  return found;
}

bool is_kind(const JsonNode& node, std::string_view kind) {
  return node.is_object() && Fields(node, "a part").text("type", "") == kind;
}

OverridableSettings read_overridable(Fields& fields) {
  OverridableSettings overridable;
  if (const auto node = fields.find("normalizer")) {
    Fields normalizer(*node, "the normalizer");
    if (is_kind(*node, "BertNormalizer")) overridable.bert = read_bert_settings(normalizer);
    overridable.lower_case =
        overridable.bert ? overridable.bert->lowercase : mentions_type(*node, "Lowercase");
  }
  if (const auto node = fields.find("pre_tokenizer"); node && is_kind(*node, "ByteLevel")) {
    Fields words(*node, "the pre-tokenizer");
    overridable.add_prefix_space = words.boolean("add_prefix_space", true);
    overridable.use_regex = words.boolean("use_regex", true);
  }
  return overridable;
}

/// The first type_id other than 0 that a template gives to a lone text or its special tokens.
int type_id_in(const JsonNode& node) {
  int type_id = 0;
  const auto look_at = [&](const JsonNode& part) {
    if (type_id == 0) type_id = type_id_in(part);
  };
  if (node.is_array()) node.each_element("a list", look_at);
  if (!node.is_object()) return type_id;
  node.each_member("a part", [&](std::string_view key, const JsonNode& value) {
    if (key == "type_id" && type_id == 0) type_id = value.integer("a type_id", 1 << 30);
    if (key != "pair" && key != "special_tokens") look_at(value);
  });
  return type_id;
}

/// Throws Error if a token of the template has no piece.
void check_template(const JsonNode& node, const Pipeline& parts) {
  for (const auto& id : parts.post_template)
    if (id && !parts.model->vocabulary().piece_of(*id) && !parts.added->find(*id))
      node.refuse(fmt::format("the special token {} is not a token of the vocabulary", *id));
}

} // namespace

std::shared_ptr<Pipeline> read_tokenizer_json(const std::string& name, std::string_view text) {
  const TextTime time("its own file");
  JsonDocument json(io::shown(name), text);
  Fields fields(JsonNode::root(json), "the tokenizer");
  fields.ignore({"version", "padding"}); // padding is for batches
  auto parts = std::make_shared<Pipeline>();
  parts->name = name;
  parts->model = read_model(fields.need("model"), *parts);
  if (const auto node = fields.find("normalizer")) parts->normalizer = read_normalizer(*node);
  if (const auto node = fields.find("pre_tokenizer"))
    parts->pre_tokenizer = read_pre_tokenizer(*node);
  parts->overridable = read_overridable(fields);
  std::vector<AddedToken> added;
  if (const auto node = fields.find("added_tokens"))
    added = read_added_tokens(*node, parts->model->vocabulary());
  note_numbers(added, *parts);
  parts->added.emplace(std::move(added), parts->normalizer);
  if (const auto node = fields.find("post_processor")) {
    parts->post_template = read_post_processor(*node);
    check_template(*node, *parts);
    parts->type_id = type_id_in(*node);
  }
  if (const auto node = fields.find("truncation")) {
    const JsonNode longest = Fields(*node, "the truncation").need("max_length");
    parts->ignored_max_length = static_cast<std::size_t>(longest.integer("max_length", 1 << 30));
  }
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder"})
    if (const auto node = fields.find(part)) {
      parts->byte_level = parts->byte_level || mentions_type(*node, "ByteLevel");
      parts->byte_fallback = parts->byte_fallback || mentions_type(*node, "ByteFallback");
      parts->marks_spaces = parts->marks_spaces || mentions_type(*node, "Metaspace") ||
                            mentions_type(*node, "Replace");
    }
  fields.finish();
  return parts;
}

} // namespace mha::tokenizers
