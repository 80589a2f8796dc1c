#pragma once
// The settings of one part of a tokenizer, by name. A setting that no part reads is refused: it
// would have meant something.

#include <mha/formats/json_node.hpp>

#include <set>

namespace mha::tokenizers {

using io::JsonDocument, io::JsonNode, io::JsonWords;

class Fields {
public:
  /// `part` is what the settings belong to, for messages: "the normalizer 'Strip'".
  Fields(JsonNode node, std::string part);

  const std::string& part() const { return part_; }
  const JsonNode& node() const { return node_; }

  /// The value of a setting; nothing where it is missing or null.
  std::optional<JsonNode> find(std::string_view name);
  /// The value of a setting that must be there.
  JsonNode need(std::string_view name);

  bool boolean(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  /// Settings that change nothing of what is computed here.
  void ignore(std::initializer_list<std::string_view> names);
  /// Refuses the first setting that was not asked for.
  void finish() const;

private:
  JsonNode node_;
  std::string part_;
  std::vector<std::pair<std::string, JsonNode>> members_;
  std::set<std::string, std::less<>> known_;
};

} // namespace mha::tokenizers
