// The layers of a checkpoint that a description presents, and what is said of them.

#include <mha/load/described.hpp>
#include <mha/load/described_names.hpp>

#include <fmt/format.h>

namespace mha {

using naming::Description;
using naming::Group;

std::vector<naming::Found> described_layers(const std::shared_ptr<const Description>& description,
                                            const io::Contents& contents,
                                            const naming::Config& config,
                                            const std::shared_ptr<naming::Reads>& reads) {
  const std::string stack = fmt::format("{}{}.", naming::described_model, naming::described_layers);
  std::vector<naming::Found> layers;
  for (const io::Entry& entry : contents.tensors) {
    if (!entry.name.starts_with(stack)) continue;
    const std::size_t dot = entry.name.find('.', stack.size());
    const std::string prefix = entry.name.substr(0, dot + 1);
    if (layers.empty() || layers.back().group.prefix != prefix) {
      naming::Found found;
      found.group.prefix = prefix, found.group.contents = &contents, found.group.config = &config;
      found.group.reads = reads, found.group.description = description;
      found.id = std::to_string(layers.size());
      found.family = &description->family;
      layers.push_back(std::move(found));
    }
    layers.back().group.tensors.emplace(entry.name.substr(dot + 1), &entry);
  }
  return layers;
}

std::string prefix_in_file(const Group& group) {
  if (group.description) return whole_name(*group.description, "", group.number().value_or(0));
  for (const auto& [name, entry] : group.tensors)
    if (entry->own_name.ends_with(name))
      return entry->own_name.substr(0, entry->own_name.size() - name.size());
  return group.prefix;
}

std::vector<Note> unclaimed_tensors(const Group& group) {
  std::string list;
  std::size_t count = 0;
  constexpr std::size_t most = 8;
  for (const io::Entry& entry : group.contents->tensors)
    if (!entry.name.starts_with(naming::described_model) && ++count <= most)
      list += fmt::format("{}{}", list.empty() ? "" : ", ", entry.name);
  if (count == 0) return {};
  if (count > most) list += fmt::format(" and {} more", count - most);
  return {warning(fmt::format("{}: nothing in {} names {}; \"ignore\" says what is no part of the "
                              "model",
                              group.contents->name, group.description->file, list))};
}

} // namespace mha
