#include <mha/naming/stage_names.hpp>

#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <array>
#include <unordered_map>

namespace mha {

namespace {

/// Words that mean several things in the field.
struct Ambiguous {
  std::string_view word;
  std::vector<Stage> readings;
};
const std::array<Ambiguous, 7> ambiguous{{
    {"attn_weights", {Stage::scaled, Stage::weights}},
    {"attn_output", {Stage::head_out, Stage::concat, Stage::output}},
    {"query_states", {Stage::q, Stage::q_rope}},
    {"Qcur", {Stage::q, Stage::q_rope}},
    {"key_states", {Stage::k, Stage::k_rope}},
    {"Kcur", {Stage::k, Stage::k_rope}},
    {"context_layer", {Stage::head_out, Stage::concat}},
}};

} // namespace

std::vector<Stage> readings_of(std::string_view name) {
  for (const Ambiguous& entry : ambiguous)
    if (entry.word == last_part(name)) return entry.readings;
  return {};
}

std::vector<std::string_view> ambiguous_words() {
  std::vector<std::string_view> words;
  for (const Ambiguous& entry : ambiguous) words.push_back(entry.word);
  return words;
}

std::optional<Stage> find_stage(std::string_view name) {
  static const auto by_word = [] {
    std::unordered_map<std::string_view, Stage> map;
    for (const StageInfo& info : stages()) {
      map.emplace(info.name, info.stage);
      for (std::string_view alias : words_of(info.aliases)) map.emplace(alias, info.stage);
    }
    return map;
  }();
  if (const auto found = by_word.find(last_part(name)); found != by_word.end())
    return found->second;
  if (const std::vector<Stage> readings = readings_of(name); !readings.empty())
    fail("'{}' means several things in the field: write {}", name, joined_names(readings, " or "));
  return std::nullopt;
}

std::optional<Stage> find_derived(std::string_view name) {
  const StageInfo* const info = find_named(derived_stages(), last_part(name));
  return info ? std::optional(info->stage) : std::nullopt;
}

Stage stage_named(std::string_view name) {
  if (const std::optional<Stage> stage = find_stage(name)) return *stage;
  if (const std::optional<Stage> stage = find_derived(name)) return *stage;
  const std::string_view word = last_part(name);
  if (find_tensor_name(word))
    fail("no stage is called '{}': {} is a tensor that the layer is made of", name, word);
  std::vector<std::string_view> names = names_of_rows(stages());
  for (const StageInfo& info : derived_stages()) names.push_back(info.name);
  const std::string meant = did_you_mean(word, names);
  fail("no stage is called '{}'{}", name,
       meant.empty() ? message("; <stages page> lists them") : meant);
}

StageOfPlace stage_of_place_named(std::string_view name) {
  const std::string_view word = last_part(name);
  return {stage_named(name), word == "hook_attn_out" || word == "hook_mlp_out"};
}

} // namespace mha
