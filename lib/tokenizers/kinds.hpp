#pragma once
// A list of kinds, and the choice from it by a node's "type".

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
  std::vector<std::string_view> names;
  for (const Kind<Part>& kind : kinds) {
    names.push_back(kind.name);
    if (kind.name != name) continue;
    Fields named(node, fmt::format("the {} '{}'", what, name));
    named.ignore({"type"});
    Part part = kind.read(named);
    named.finish();
    return part;
  }
  const std::string meant = did_you_mean(name, names);
  type.refuse(fmt::format("the {} '{}' is not known here{}", what, io::shown(name),
                          meant.empty() ? "; known are " + io::listed(names) : meant));
}

} // namespace mha::tokenizers
