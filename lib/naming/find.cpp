// Which tensors of a file are attention layers, of which family, under which numbers.

#include "naming/family.hpp"

#include <algorithm>
#include <set>

namespace mha::naming {

namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    if (space != 0) list.push_back(text.substr(0, space));
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  return list;
}

/// The prefix of `name` before `ending`, if it ends so at a dot or is it.
std::optional<std::string_view> prefix_of(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  const std::string_view prefix = name.substr(0, name.size() - ending.size());
  if (!prefix.empty() && prefix.back() != '.') return std::nullopt;
  return prefix;
}

/// The groups of one family, by prefix.
std::map<std::string, Group> groups_of(const Family& family, const io::Contents& contents, const Config& config) {
  const std::vector<std::string_view> endings = words(family.tensors);
  std::map<std::string, Group> groups;
  for (const io::Entry& entry : contents.tensors)
    for (std::string_view ending : endings)
      if (const std::optional<std::string_view> prefix = prefix_of(entry.name, ending)) {
        Group& group = groups[std::string(*prefix)];
        group.prefix = *prefix, group.contents = &contents, group.config = &config;
        group.tensors.emplace(ending, &entry);
      }
  return groups;
}

bool mentions(std::string_view prefix, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return prefix.find(part) != std::string_view::npos; });
}

std::string qualified_id(const Found& found) {
  const std::string& prefix = found.group.prefix;
  const std::optional<std::size_t> number = layer_number(prefix);
  std::string id = mentions(prefix, {"decoder."}) ? "decoder." : mentions(prefix, {"encoder."}) ? "encoder." : "";
  id += number ? std::to_string(*number) : "";
  if (mentions(prefix, {"encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "multihead_attn"})) id += ".cross";
  return id;
}

void name_layers(std::vector<Found>& layers) {
  const auto distinct = [&](auto&& id_of) {
    std::set<std::string> ids;
    for (Found& found : layers) found.id = id_of(found), ids.insert(found.id);
    return ids.size() == layers.size();
  };
  if (distinct([](const Found& found) {
        const std::optional<std::size_t> number = layer_number(found.group.prefix);
        return number ? std::to_string(*number) : std::string();
      }))
    return;
  if (distinct(qualified_id)) return;
  distinct([](const Found& found) { return found.group.prefix.substr(0, found.group.prefix.size() - 1); });
}

} // namespace

std::optional<std::size_t> layer_number(std::string_view prefix) {
  std::optional<std::size_t> number;
  while (!prefix.empty()) {
    const std::size_t dot = prefix.find('.');
    const std::string_view part = prefix.substr(0, dot);
    if (!part.empty() && part.size() < 9 && part.find_first_not_of("0123456789") == std::string_view::npos) {
      number = 0;
      for (char digit : part) number = *number * 10 + static_cast<std::size_t>(digit - '0');
      return number;
    }
    if (dot == std::string_view::npos) break;
    prefix.remove_prefix(dot + 1);
  }
  return number;
}

std::vector<Found> find_layers(const io::Contents& contents, const Config& config, std::string_view only) {
  std::vector<Found> layers;
  std::set<std::string> taken;
  for (const Family* family : families()) {
    if (!only.empty() && family->name != only) continue;
    for (auto& [prefix, group] : groups_of(*family, contents, config)) {
      if (taken.count(prefix) || (only.empty() && !family->recognises(group))) continue;
      taken.insert(prefix);
      layers.push_back({"", std::move(group), family});
    }
  }
  // Numbers in their order, not as text: 2 before 10.
  std::stable_sort(layers.begin(), layers.end(), [](const Found& a, const Found& b) {
    return std::tuple(layer_number(a.group.prefix), a.group.prefix) < std::tuple(layer_number(b.group.prefix), b.group.prefix);
  });
  name_layers(layers);
  return layers;
}

} // namespace mha::naming
