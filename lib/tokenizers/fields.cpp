#include <mha/tokenizers/fields.hpp>

#include <mha/files/text.hpp>

#include <algorithm>

namespace mha::tokenizers {

Fields::Fields(JsonNode node, std::string part)
    : node_(node), part_(std::move(part)), members_(node.members(part_)) {}

std::optional<JsonNode> Fields::find(std::string_view name) {
  known_.emplace(name);
  const auto found = std::ranges::find(
      members_, name, [](const auto& member) -> std::string_view { return member.first; });
  if (found == members_.end() || found->second.is_null()) return std::nullopt;
  return found->second;
}

JsonNode Fields::need(std::string_view name) {
  const auto value = find(name);
  if (!value) node_.refuse(fmt::format("{} has no '{}'", part_, name));
  return *value;
}

bool Fields::boolean(std::string_view name, bool otherwise) {
  const auto value = find(name);
  return value ? value->boolean(name) : otherwise;
}

std::string Fields::text(std::string_view name, std::string_view otherwise) {
  const auto value = find(name);
  return value ? value->text(name) : std::string(otherwise);
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void Fields::finish() const {
  const std::vector<std::string_view> names(known_.begin(), known_.end());
  for (const auto& [name, value] : members_)
    if (!known_.contains(name))
      value.refuse(fmt::format("{} has '{}', which is not known here and may change its tokens{}",
                               part_, io::shown(name), did_you_mean(name, names)));
}

} // namespace mha::tokenizers
