#include <mha/api/wishes.hpp>

#include <mha/layer/graph.hpp>
#include <mha/load/families/family.hpp>
#include <mha/naming/stage_names.hpp>

#include <fmt/format.h>

namespace mha::api {

Wishes::Wishes(const std::vector<std::string>& names, std::size_t layers)
    : all_(layers + 1), stages_(layers + 1) {
  for (const std::string& name : names) add(name, layers);
}

StageSet Wishes::of(std::size_t number, const Layer& layer) const {
  if (all_[number]) return available_stages(layer);
  const StageSet& wanted = stages_[number];
  if (wanted.none()) return wanted;
  const StageSet available = available_stages(layer);
  for (const Stage stage : wanted) require_stage(layer, stage, available);
  return wanted;
}

void Wishes::add(const std::string& name, std::size_t layers) {
  if (name == "*" || name == "all") {
    all_.assign(layers + 1, true);
    return;
  }
  const PlaceLayers named = layers_named(name, layers);
  const bool all = named.names_layer() && name.ends_with(".*");
  const Stage stage = all ? Stage::output : stage_named(name);
  if (!all && is_of_model(stage)) {
    require_of_model(name, stage, named);
    stages_[layers].add(stage);
    return;
  }
  for (std::size_t n = 0; n < layers; ++n) {
    if (named.names_layer() && !named.is_of(n)) continue;
    if (all)
      all_[n] = true;
    else
      stages_[n].add(stage);
  }
}

PlaceLayers layers_named(std::string_view name, std::size_t layers) {
  PlaceLayers named = layers_of_place(name, name);
  named.count_from_first(layers, name);
  if (const auto number = naming::layer_number(name); number && !named.names_layer())
    named.layers = {*number, *number}; // another tool's name
  if (named.layers && named.layers->second >= layers)
    fail("{}: the model has {}, counted from 0", name, counted(layers, "layers"));
  return named;
}

std::vector<std::size_t> places_named(std::string_view name,
                                      const std::vector<std::optional<Cache>>& kept,
                                      std::size_t layers) {
  const Stage stage = stage_named(name);
  const PlaceLayers named = layers_named(name, layers);
  require_of_model(name, stage, named);
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < kept.size(); ++n)
    if (kept[n] && kept[n]->has(stage) && (!named.names_layer() || n == layers || named.is_of(n)))
      places.push_back(n);
  return places;
}

} // namespace mha::api
