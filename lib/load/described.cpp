#include <mha/load/described.hpp>

#include <mha/formats/onnx_graph.hpp>

#include <mha/load/described_names.hpp>
#include <mha/load/whole_model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

using naming::DescribedTensor;
using naming::Description;
using naming::Found;
using naming::Group;

namespace {

std::size_t number_of_layers(const Description& description, const Group& group) {
  constexpr std::size_t most = 4096;
  std::size_t layers = 1;
  if (description.layers.size() > 1) {
    layers = description.layers.size();
  } else if (description.num_layers.is_given()) {
    const double count = description.num_layers.number(group).value_or(0);
    if (!(count >= 1 && count <= most) || count != std::floor(count))
      fail("{}: num_layers is {}: a whole number from 1 to {} expected",
           description.num_layers.where, count, most);
    layers = static_cast<std::size_t>(count);
  } else {
    for (const auto& [key, tensor] : description.tensors)
      if (naming::is_of_layer(key) && tensor.values.empty())
        for (const io::Entry& entry : group.contents->tensors)
          if (const auto n = number_in(entry.name, whole_pattern(description, tensor.name, 0)))
            layers = std::max(layers, *n + 1);
    if (layers > most) fail("{}: {} layers: at most {} expected", description.file, layers, most);
  }
  for (const auto& [name, setting] : description.settings)
    if (!setting.layers.empty() && setting.layers.size() != layers)
      fail("{}: {} of {}, but the model has {}", setting.where,
           counted(setting.layers.size(), "values"), name, counted(layers, "layers"));
  return layers;
}

/// Checks every tensor against the others, so that all commands report a mistake in any layer.
void check_tensors(std::vector<Found> layers, const naming::Options& options) {
  for (Found& layer : layers) layer.group.outline = true;
  const WholeModel model(layers);
  for (std::size_t n = 0; n < layers.size(); ++n) {
    naming::LayerReading parts(layers[n].group, *layers[n].family, options);
    naming::read_described_tensors(layers[n].group, parts);
    model.block(n);
  }
}

} // namespace

bool has_described_tensors(const Description& description, const io::Contents& file) {
  for (const auto& [key, tensor] : description.tensors) {
    if (!tensor.values.empty()) continue;
    const std::string pattern =
        naming::is_of_layer(key) ? whole_pattern(description, tensor.name, 0) : tensor.name;
    const std::string first = with_head(with_layer(pattern, 0), 0);
    if (file.find(first)) return true;
  }
  return false;
}

std::vector<Found> described_layers(const std::shared_ptr<const Description>& description,
                                    const io::Contents& file, const naming::Config& config,
                                    const naming::Options& options,
                                    const std::shared_ptr<naming::Reads>& reads) {
  Group group;
  group.contents = &file, group.config = &config, group.reads = reads;
  group.description = description;
  std::vector<Found> layers(number_of_layers(*description, group));
  for (std::size_t n = 0; n < layers.size(); ++n) {
    layers[n].group = group;
    layers[n].group.layer = n, layers[n].group.prefix = whole_name(*description, "", n);
    layers[n].id = std::to_string(n);
    layers[n].family = &description->family;
  }
  check_tensors(layers, options);
  return layers;
}

std::vector<Found> layers_by(const UserNaming& by, const io::Contents& file,
                             const naming::Config& config, const naming::Options& options,
                             const std::shared_ptr<naming::Reads>& reads) {
  if (!by.description) return naming::find_layers(file, config, by.family);
  if (!has_described_tensors(*by.description, file)) return {};
  return described_layers(by.description, file, config, options, reads);
}

std::string prefix_in_file(const Group& group) {
  if (group.description) return group.prefix;
  for (const auto& [name, entry] : group.tensors)
    if (entry->own_name.ends_with(name))
      return entry->own_name.substr(0, entry->own_name.size() - name.size());
  return group.prefix;
}

bool is_ignored(const Description& description, const std::string& name) {
  return std::ranges::any_of(description.ignore,
                             [&](const std::string& pattern) { return is_like(name, pattern); });
}

std::vector<Note> unclaimed_tensors(const Group& group) {
  std::string list;
  std::size_t count = 0;
  constexpr std::size_t most = 8;
  const io::KeptGraph* const graph = group.contents->graph.get();
  for (const io::Entry& entry : group.contents->tensors) {
    const std::string& name = entry.name;
    if (graph && !graph->is_of_module(entry)) continue;
    if (group.reads->used(name) || group.reads->skipped(name)) continue;
    if (is_ignored(*group.description, name)) continue;
    if (++count <= most) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  }
  if (count == 0) return {};
  if (count > most) list += fmt::format(" and {} more", count - most);
  return {
      warning(fmt::format("{}: nothing in {} names {}; list under \"ignore\" what is not part of "
                          "the model",
                          group.contents->name, group.description->file, list))};
}

} // namespace mha
