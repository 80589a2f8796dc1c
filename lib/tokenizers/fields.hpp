#pragma once
// The settings of one part of a tokenizer, by name, and the choice of a part's kind by its "type".
// A setting that is not read is an error, because it could change the tokens.

#include <mha/files/text.hpp>
#include <mha/formats/json_node.hpp>
#include <mha/system/named.hpp>

#include <set>
#include <span>
#include <vector>

namespace mha::tokenizers {

using io::JsonDocument, io::JsonNode, io::JsonWords;

class Fields {
public:
  /// `part` names the owner of the settings, for messages: "the normalizer 'Strip'".
  Fields(JsonNode node, std::string part);

  const std::string& part() const { return part_; }
  const JsonNode& node() const { return node_; }

  /// The value of a setting; nothing if it is missing or null.
  std::optional<JsonNode> find(std::string_view name);
  /// The value of a required setting.
  JsonNode need(std::string_view name);

  bool boolean(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  /// Accepts settings that change nothing here.
  void ignore(std::initializer_list<std::string_view> names);
  /// Throws Error for the first setting that was not read or ignored.
  void finish() const;

private:
  JsonNode node_;
  std::string part_;
  std::vector<std::pair<std::string, JsonNode>> members_;
  std::set<std::string, std::less<>> known_;
};

/// A kind of part, in a list to choose from.
template <class Part> struct Kind {
  std::string_view name;
  Part (*read)(Fields& fields);
};

/// Reads a node as the kind that its "type" names; `what` is the part, for messages: "normalizer".
template <class Part>
Part read_kind(const JsonNode& node, std::string_view what, std::span<const Kind<Part>> kinds) {
  Fields fields(node, fmt::format("a {}", what));
  const JsonNode type = fields.need("type");
  const std::string name = type.text(fmt::format("the {}'s type", what));
  const Kind<Part>* const kind = find_named(kinds, name);
  if (!kind) {
    const std::vector<std::string_view> names = names_of_rows(kinds);
    const std::string meant = did_you_mean(name, names);
    type.refuse(fmt::format("the {} '{}' is not known here{}", what, io::shown(name),
                            meant.empty() ? "; known are " + io::listed(names) : meant));
  }
  Fields named(node, fmt::format("the {} '{}'", what, name));
  named.ignore({"type"});
  Part part = kind->read(named);
  named.finish();
  return part;
}

} // namespace mha::tokenizers
