#include <mha/load/named_layers.hpp>

#include <mha/formats/onnx_graph.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

using naming::Found;
using naming::Group;

void cannot_say(const Group& group, std::string_view what) {
  fail("{}: a description cannot say {}", group.contents->name, what);
}

/// The group's prefix in the file's own names.
std::string NamedLayers::own_prefix(const Group& group) const {
  for (const auto& [name, entry] : group.tensors) {
    const std::string& own = name_in_file(*entry);
    if (own.ends_with(name)) return own.substr(0, own.size() - name.size());
  }
  cannot_say(group, "where its layers stand");
}

void NamedLayers::add_layer(const Found& found, std::string block) {
  ReadAs layer;
  layer.group = found.group;
  layer.group.outline = true;
  const std::string own = own_prefix(found.group);
  layer.block = std::move(block);
  layer.block_in_file =
      own.substr(0, own.size() - (found.group.prefix.size() - layer.block.size()));
  layers_.push_back(std::move(layer));
  ReadAs& kept = layers_.back();
  kept.read.emplace(kept.group, *family_, options_);
  naming::read_layer(*family_, kept.group, *kept.read);
}

std::vector<std::string> NamedLayers::layers_pattern() const {
  const std::string& first = layers_[0].block_in_file;
  const std::size_t number = layers_[0].group.number().value_or(0);
  for (std::size_t at = 0; (at = first.find(std::to_string(number), at)) != first.npos; ++at) {
    const std::string before = first.substr(0, at),
                      behind = first.substr(at + std::to_string(number).size());
    if (std::ranges::all_of(layers_, [&](const ReadAs& layer) {
          return layer.block_in_file ==
                 fmt::format("{}{}{}", before, layer.group.number().value_or(0), behind);
        }))
      return {before + "{layer}" + behind};
  }
  std::vector<std::string> list;
  for (const ReadAs& layer : layers_) list.push_back(layer.block_in_file);
  return list;
}

std::string NamedLayers::below_block(const io::Entry& entry, const ReadAs& layer) {
  claim(entry);
  const std::string& own = name_in_file(entry);
  const std::string& block = layer.block_in_file;
  if (!own.starts_with(block)) cannot_say(layer.group, own + ", outside of its layer");
  return own.substr(block.size());
}

const NamedLayers::ReadAs& NamedLayers::layer_with_norm() const {
  const auto has_norm = [](const ReadAs& layer) { return layer.read->norm.weight.has_value(); };
  const auto at = std::ranges::find_if(layers_, has_norm);
  return at == layers_.end() ? layers_[0] : *at;
}

void NamedLayers::claim(const io::Entry& entry) {
  const std::string& own = name_in_file(entry);
  claimed_.insert(own);
  for (const ReadAs& of : layers_) {
    if (!own.starts_with(of.block_in_file)) continue;
    for (const ReadAs& layer : layers_)
      claimed_.insert(layer.block_in_file + own.substr(of.block_in_file.size()));
    return;
  }
}

const io::Entry* NamedLayers::in_file(std::string_view own) const {
  for (const io::Entry& entry : layers_[0].group.contents->tensors)
    if (name_in_file(entry) == own) return &entry;
  return nullptr;
}

std::vector<std::string> NamedLayers::unclaimed() const {
  std::vector<std::string> list;
  std::set<std::string> once;
  const io::Contents& file = *layers_[0].group.contents;
  for (const io::Entry& entry : file.tensors) {
    const std::string& own = name_in_file(entry);
    if (claimed_.contains(own) || (file.graph && !file.graph->is_of_module(entry))) continue;
    std::string pattern = own;
    for (const ReadAs& layer : layers_)
      if (const std::string number = fmt::format(".{}.", layer.group.number().value_or(0));
          own.starts_with(layer.block_in_file) && own.find(number) != own.npos)
        pattern.replace(own.find(number), number.size(), ".{layer}.");
    if (once.insert(pattern).second) list.push_back(pattern);
  }
  return list;
}

} // namespace mha
