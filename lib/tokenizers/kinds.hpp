#pragma once
// A list of kinds, and the choice from it by a node's "type".

#include <mha/system/named.hpp>
#include <mha/tokenizers/fields.hpp>

#include <mha/files/text.hpp>

#include <span>
#include <vector>

namespace mha::tokenizers {

template <class Part> struct Kind {
  std::string_view name;
  Part (*read)(Fields& fields);
};

/// What the node's "type" names; `what` is the part, for messages: "normalizer".
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
