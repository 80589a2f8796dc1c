#include <mha/api/wishes.hpp>

#include <mha/layer/graph.hpp>
#include <mha/load/families/family.hpp>

#include <fmt/format.h>

namespace mha::api {

Wishes::Wishes(const std::vector<std::string>& names, std::size_t layers) : stages_(layers + 1) {
  for (const std::string& name : names) add(name, layers);
}

StageSet Wishes::of(std::size_t number, const Layer& layer) const {
  if (all_) return available_stages(layer);
  const StageSet& wanted = stages_[number];
  for (const StageInfo& info : stages())
    if (contains(wanted, info.stage)) require_stage(layer, info.stage);
  return wanted;
}

void Wishes::add(const std::string& name, std::size_t layers) {
  if (name == "*" || name == "all") {
    all_ = true;
    return;
  }
  std::string_view word(name);
  bool every = false;
  for (const std::string_view stack : {"layers.*.", "blocks.*.", "h.*."})
    if (word.starts_with(stack)) word.remove_prefix(stack.size()), every = true;
  const Stage stage = stage_named(word);
  const std::optional<std::size_t> number = every ? std::nullopt : naming::layer_number(word);
  if (is_of_model(stage))
    stages_[layers].set(index_of(stage));
  else if (!number)
    for (std::size_t n = 0; n < layers; ++n) stages_[n].set(index_of(stage));
  else if (*number < layers)
    stages_[*number].set(index_of(stage));
  else
    fail("{}: the model has {}, counted from 0", name, counted(layers, "layers"));
}

std::vector<std::size_t> places_named(std::string_view name, const std::vector<Cache>& kept,
                                      std::size_t layers) {
  const Stage stage = stage_named(name);
  const std::optional<std::size_t> number = naming::layer_number(name);
  if (number && *number >= layers)
    fail("{}: the model has {}, counted from 0", name, counted(layers, "layers"));
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < kept.size(); ++n)
    if (is_kept(kept[n]) && kept[n].has(stage) && (!number || n == *number)) places.push_back(n);
  return places;
}

} // namespace mha::api
