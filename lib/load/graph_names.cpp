#include <mha/load/graph_names.hpp>

#include <mha/formats/folder.hpp>
#include <mha/load/described.hpp>
#include <mha/load/graph_reader.hpp>
#include <mha/load/model_reader.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

namespace mha {

using naming::Found;

namespace {

std::set<std::string> ids_of(const std::vector<Found>& layers) {
  std::set<std::string> ids;
  for (const Found& layer : layers) ids.insert(layer.id);
  return ids;
}

/// A value that the graph's reader found for a layer, or "".
std::string value_in_graph(const Found& own, const char* name) {
  for (const auto& [key, value] : own.group.contents->scalars)
    if (key == own.group.prefix + name) return value;
  return "";
}

} // namespace

void GraphNames::add_config_beside() {
  const auto beside = std::filesystem::path(graph->name).parent_path() / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored)) return;
  for (const auto& [key, value] : io::read_config(beside.string())) config.emplace(key, value);
}

void GraphNames::find(const UserNaming& by, const std::vector<Found>& own) {
  for (const char* setting : {"num_heads", "num_kv_heads"}) {
    std::set<std::string> values;
    for (const Found& layer : own) values.insert(value_in_graph(layer, setting));
    if (values.size() == 1 && *values.begin() != "") options.emplace(setting, *values.begin());
  }
  contents.name = graph->name, contents.format = graph->format, contents.graph = graph->graph;
  contents.tensors = graph->graph->parameters;
  layers = layers_by(by, contents, config, options, std::make_shared<naming::Reads>());
  if (layers.empty() && by.description) { // its names may be those of the nodes
    contents = *graph;
    layers = layers_by(by, contents, config, options, std::make_shared<naming::Reads>());
  }
  if (layers.empty() && by.description)
    fail("{}: {} has none of the tensors that it names, nor do the paths of its nodes",
         by.description->file, graph->name);
  if (layers.empty() && by.family)
    fail("{}: the paths of its nodes name no layer with the tensors of {}: {}", graph->name,
         by.family->title, by.family->needs);
  if (layers.empty() && is_asked_for)
    fail("{}: the paths of its nodes are not known names of a whole model's layers; "
         "{}",
         graph->name, give_X_instead);
  const std::set<std::string> ids = ids_of(own), named = ids_of(layers);
  if (ids == named) return;
  if (is_asked_for)
    fail("{}: the graph has {} of attention that are read, and the paths of its nodes name {}; {}",
         graph->name, counted(ids.size(), "layers"), named.size(),
         message("<naming> onnx reads the graph's own"));
  layers.clear();
}

const Found& GraphNames::layer(const std::string& id) const {
  return *std::ranges::find(layers, id, &Found::id);
}

bool GraphNames::hold(const Found& own, const NamedTensors& parts, std::vector<Note>& notes) const {
  const Found& named = layer(own.id);
  naming::LayerReading read(named.group, *named.family, options);
  try {
    naming::read_layer(*named.family, named.group, read);
  } catch (const Error& error) {
    if (is_asked_for) throw;
    notes.emplace_back(error.message() + message("; the layer is read as the graph computes it"));
    return false;
  }
  for (const char* name : {"W_q", "W_k", "W_v", "W_o"}) {
    const auto by_name = read.parts.find(name);
    const auto by_graph = parts.find(name);
    if (by_name == read.parts.end()) continue; // fused otherwise: the graph's is read
    if (by_graph != parts.end() && are_same(by_name->second.tensor, by_graph->second.tensor))
      continue;
    fail("{}: the graph computes another layer than its names imply: {} is not {} of the attention "
         "at node '{}'; <naming> onnx reads the layer without names",
         graph->name, by_name->second.source, name, value_in_graph(own, "node"));
  }
  return true;
}

} // namespace mha
