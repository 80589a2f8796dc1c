// Which layers of a GGUF file have a window, and what differs between them and the others.

#include <mha/formats/gguf_settings.hpp>
#include <mha/formats/gguf_tables.hpp>

#include <mha/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mha::io {

namespace {

constexpr std::string_view pattern_key = "attention.sliding_window_pattern";
/// The architectures whose files have a list of the layers with a window.
constexpr std::string_view lists_windows = "mimo2 step35 gemma4";

/// A pattern that the files do not have: layers in groups, of which the last has no window, or the
/// first.
struct Groups {
  std::string_view architectures;
  std::int64_t size = 2;
  bool whole_first = false;
};
constexpr Groups usual_groups[]{{"gemma3", 6},
                                {"olmo2 cohere2 exaone4 exaone-moe afmoe llama4", 4},
                                {"laguna", 4, true},
                                {"gemma2 gpt-oss", 2}};

Groups groups_of(const GgufSettings& settings) {
  for (const Groups& row : usual_groups)
    if (settings.is(row.architectures)) return row;
  return {};
}

bool slides_in(const Groups& groups, std::int64_t layer) {
  if (groups.size <= 0) return !groups.whole_first; // llama.cpp: all, or none
  const std::int64_t place = layer % groups.size;
  return groups.whole_first ? place != 0 : place < groups.size - 1;
}

/// The layers of the model, without the blocks that predict further tokens.
std::uint64_t layers_of(const GgufSettings& settings) {
  constexpr double most = 4096;
  const double layers = settings.number("block_count").value_or(0) - settings.further_blocks();
  return layers > 0 && layers <= most ? static_cast<std::uint64_t>(layers) : 0;
}

/// For each layer whether it has a window, if the file has one at all.
std::vector<bool> windowed_layers(const GgufSettings& settings) {
  const GgufValue* const pattern = settings.value(pattern_key);
  const bool is_list = pattern && pattern->is_array;
  Groups groups = groups_of(settings);
  if (pattern && !is_list)
    groups.size = settings.file().integer(settings.whole(pattern_key)).value_or(0);
  const std::uint64_t layers = layers_of(settings), count = !is_list ? layers
                                                            : layers > 0
                                                                ? std::min(layers, pattern->count)
                                                                : pattern->count;
  std::vector<bool> windowed;
  for (std::uint64_t i = 0; i < count; ++i)
    windowed.push_back(is_list ? pattern->boolean(i).value_or(pattern->integer(i).value_or(0) != 0)
                               : slides_in(groups, static_cast<std::int64_t>(i)));
  return windowed;
}

/// One word a layer: "a,b,a".
template <class Word> std::string by_layer(const std::vector<bool>& windowed, const Word& word) {
  std::string list;
  for (std::size_t i = 0; i < windowed.size(); ++i)
    list += fmt::format("{}{}", i > 0 ? "," : "", word(i));
  return list;
}

/// Sets layer_types. A list that llama.cpp does not read, and that differs from what it takes
/// instead, is doubted.
void take_pattern(GgufSettings& settings, bool has_window) {
  const std::vector<bool> windowed = windowed_layers(settings);
  const char* const slides = settings.is("llama4") ? "chunked_attention" : "sliding_attention";
  if (!windowed.empty())
    settings.set("layer_types", by_layer(windowed, [&](std::size_t i) {
                   return windowed[i] && has_window ? slides : "full_attention";
                 }));
  const GgufValue* const pattern = settings.value(pattern_key);
  if (pattern && pattern->is_array) {
    if (pattern->count > 0 && !pattern->boolean() && !pattern->integer())
      return settings.refuse(pattern_key, "where a list of true and false is expected");
    if (const std::uint64_t layers = layers_of(settings); pattern->count < layers)
      return settings.refuse(
          pattern_key, fmt::format("which has {} entries for {} layers", pattern->count, layers));
  }
  // AFMoE's layers rotate by groups of four, whatever their windows.
  if (pattern && settings.is("afmoe") && (pattern->is_array || pattern->integer() != 4))
    return settings.refuse(pattern_key, "which is not computed here: 4 expected");
  if (settings.is(lists_windows)) {
    if (!pattern || !pattern->is_array)
      settings.refuse(pattern_key, pattern ? "where a list with an entry a layer is expected"
                                           : "is missing: a list with an entry a layer expected");
    return;
  }
  if (!pattern || !pattern->is_array || settings.is("exaone4")) return;
  const Groups usual = groups_of(settings);
  for (std::size_t i = 0; i < windowed.size(); ++i)
    if (windowed[i] != slides_in(usual, static_cast<std::int64_t>(i)))
      return settings.doubt(pattern_key,
                            fmt::format("is used; llama.cpp does not read this list, and repeats "
                                        "groups of {} layers",
                                        usual.size));
}

/// Llama 4's layers with chunks of keys and with rotation, as llama.cpp has them whatever the keys
/// are.
void take_llama4(GgufSettings& settings) {
  if (settings.number("attention.sliding_window") == 0.0)
    settings.refuse("attention.sliding_window", "which is not computed here: 8192 expected");
  for (const auto& [name, value] : {std::pair("attention_chunk_size", "8192"),
                                    {"floor_scale", "8192"},
                                    {"attn_scale", "0.1"},
                                    {"attn_temperature_tuning", "true"}})
    settings.set(name, value);
  settings.set_flag("use_qk_norm", settings.number("expert_count") != 128.0);
  settings.set("no_rope_layers", by_layer(windowed_layers(settings), [](std::size_t i) {
                 return (i + 1) % 4 != 0 ? "1" : "0";
               }));
  take_pattern(settings, true);
}

/// A key with a value a layer, and the names in config.json of the value in layers without a window
/// and in those with one.
struct ByKind {
  std::string_view architecture, key, whole, windowed;
};
constexpr ByKind by_kind_rows[]{
    {"mimo2", "attention.head_count_kv", "num_key_value_heads", "swa_num_key_value_heads"},
    {"step35", "attention.head_count", "num_attention_heads",
     "attention_other_setting.num_attention_heads"},
    {"step35", "attention.head_count_kv", "num_attention_groups",
     "attention_other_setting.num_attention_groups"},
    {"gemma4", "attention.head_count_kv", "num_global_key_value_heads", "num_key_value_heads"}};

void take_by_kind(GgufSettings& settings, const ByKind& row, const std::vector<bool>& windowed) {
  const GgufValue* const found = settings.value(row.key);
  if (!found) return;
  std::optional<std::int64_t> values[2];
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    std::optional<std::int64_t>& known = values[windowed[i] ? 1 : 0];
    const auto value = found->integer(found->is_array ? i : 0);
    if (!value || (known && *known != *value))
      return settings.refuse(row.key, "which is not computed here: one number for all layers with "
                                      "a window and one for the others expected");
    known = value;
  }
  // A kind of which there is no layer has the other's.
  for (const bool kind : {false, true})
    if (const auto value = values[kind ? 1 : 0] ? values[kind ? 1 : 0] : values[kind ? 0 : 1])
      settings.set(std::string(kind ? row.windowed : row.whole), fmt::format("{}", *value));
}

/// Moves the rotation that the file has for all layers to the object of one kind of them in
/// config.json, and sets that of layers with a window, which are never scaled.
void split_rotation(GgufSettings& settings) {
  const std::string whole = "rope_parameters.full_attention.",
                    windowed = "rope_parameters.sliding_attention.";
  std::map<std::string, std::string> moved;
  for (auto entry = settings.config.begin(); entry != settings.config.end();) {
    const std::string& name = entry->first;
    const bool scaling = name.starts_with("rope_scaling.");
    if (scaling || name == "rope_theta") {
      moved[whole + (scaling ? name.substr(13) : name)] = entry->second;
      entry = settings.config.erase(entry);
    } else {
      ++entry;
    }
  }
  settings.config.erase("rotary_dim");
  settings.config.merge(moved);
  settings.config.try_emplace(whole + "rope_type", "default");
  settings.set(windowed + "rope_type", "default");
  const double width = settings.number("attention.key_length").value_or(0),
               width_in_window = settings.number("attention.key_length_swa").value_or(width);
  for (const auto& [key, found] :
       {std::pair("attention.key_length", width), {"attention.key_length_swa", width_in_window}})
    if (found <= 0)
      return settings.refuse(key, settings.value(key) ? "where the width of a head is expected"
                                                      : "is missing: the width of a head expected");
  const double dims = settings.number("rope.dimension_count").value_or(width),
               dims_in_window = settings.number("rope.dimension_count_swa").value_or(dims);
  // In Step-3.5's files the number is that of layers with a window, twice that of the others.
  settings.set_rotated_part(whole + "partial_rotary_factor",
                            settings.is("step35") ? dims / 2 : dims, width);
  settings.set_rotated_part(windowed + "partial_rotary_factor", dims_in_window, width_in_window);
  const auto base = settings.number("rope.freq_base_swa");
  const double usual =
      settings.is("laguna") ? settings.number("rope.freq_base").value_or(1e4) : 1e4;
  settings.set(windowed + "rope_theta", number_text(base.value_or(usual)));
}

/// Step-3.5's limits of experts and shared experts: one a layer, or one for all. llama.cpp takes
/// less than a millionth for none.
void take_step_limits(GgufSettings& settings, const std::vector<bool>& windowed) {
  for (const auto& [key, name] : {std::pair("swiglu_clamp_exp", "swiglu_limits"),
                                  {"swiglu_clamp_shexp", "swiglu_limits_shared"}}) {
    const GgufValue* const limits = settings.value(key);
    if (!limits) continue;
    if (limits->is_array && limits->count < windowed.size())
      settings.refuse(
          key, fmt::format("which has {} numbers for {} layers", limits->count, windowed.size()));
    settings.set(name, by_layer(windowed, [&](std::size_t layer) {
                   const double limit = limits->number(limits->is_array ? layer : 0).value_or(0);
                   return number_text(limit > 1e-6 ? limit : 0);
                 }));
  }
  const GgufTensor* const divisors = settings.tensor("rope_freqs.weight");
  const double half = settings.number("attention.key_length").value_or(0) / 2;
  if (divisors && (divisors->shape.size() != 1 || static_cast<double>(divisors->shape[0]) != half))
    settings.refuse_tensor(divisors->name,
                           fmt::format("is {}: {} numbers expected, half the width of a head",
                                       to_string(divisors->shape), half));
}

} // namespace

void take_gguf_windows(GgufSettings& settings) {
  if (settings.is("llama4")) return take_llama4(settings);
  if (!settings.is(gguf_windowed) && !settings.is(gguf_alternating)) return;
  const std::optional<double> given = settings.number("attention.sliding_window");
  // Gemma 2 and the largest EXAONE 4 have a window even without the key.
  const bool largest = settings.is("exaone4") && settings.number("block_count") == 64;
  const double window = given.value_or(settings.is("gemma2") || largest ? 4096 : 0);
  if (largest && !given) settings.set_number("sliding_window", window);
  // Without a window every layer of EXAONE 4 rotates.
  if (window == 0 && (!given || settings.is("exaone4 afmoe laguna")))
    settings.set("sliding_window", "null");
  // Mistral's files have the architecture "llama", but LLaMA has no window.
  if (settings.is("llama") && given) settings.set("model_type", "mistral");
  if (settings.is("gpt-oss cohere2 exaone-moe mimo2 step35 gemma4") && !given)
    settings.refuse("attention.sliding_window",
                    "is missing, without which models of this kind are not computed");
  // With a window of 0, no token of Cohere 2 would see any key.
  if (settings.is("cohere2 exaone-moe mimo2 step35 gemma4") && given == 0.0)
    settings.refuse("attention.sliding_window", "which is not computed here: a window expected");
  // The rotation of AFMoE's layers follows the same pattern, with or without a window.
  if (settings.is(gguf_alternating)) take_pattern(settings, window > 0 || settings.is("afmoe"));
}

void take_gguf_kinds_of_layers(GgufSettings& settings) {
  if (!settings.is(gguf_two_rotations)) return;
  const GgufValue* const pattern = settings.value(pattern_key);
  if (settings.is(lists_windows) && !(pattern && pattern->is_array)) return; // refused
  const std::vector<bool> windowed = windowed_layers(settings);
  for (const ByKind& row : by_kind_rows)
    if (settings.is(row.architecture)) take_by_kind(settings, row, windowed);
  if (settings.is("mimo2 step35") && settings.number("rope.scaling.attn_factor").value_or(1) != 1)
    settings.refuse("rope.scaling.attn_factor", "which is not computed here: 1 expected");
  else if (settings.is("mimo2 step35") && settings.config.contains("rope_scaling.rope_type") &&
           !settings.has("rope_freqs.weight"))
    settings.refuse("rope.scaling.type", "which is not computed here: none expected");
  split_rotation(settings);
  if (settings.is("laguna"))
    if (const GgufValue* const heads = settings.value("attention.head_count")) {
      settings.set(heads->is_array ? "num_attention_heads_per_layer" : "num_attention_heads",
                   heads->written());
      settings.set_number("num_attention_heads",
                          settings.number("attention.head_count").value_or(0));
    }
  if (settings.is("gemma4")) take_gguf_gemma4(settings, windowed);
  if (settings.is("step35")) take_step_limits(settings, windowed);
}

} // namespace mha::io
