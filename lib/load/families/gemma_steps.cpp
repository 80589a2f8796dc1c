// Gemma: keys of config.json whose meaning depends on another key.

#include <mha/load/families/positions.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/system/parse.hpp>

#include <cmath>
#include <limits>

namespace mha::naming {

namespace {

/// Gemma 3n's layers without layer_types.
bool all_but_every_fifth(const Group&, std::size_t layer) {
  return (layer + 1) % 5 != 0;
}

/// Gemma 4's layers without layer_types: each sixth sees all keys, and the last one.
bool all_but_sixth_and_last(const Group& group, std::size_t layer) {
  return all_but_every_sixth(group, layer) &&
         layer + 1 != group.configured_count({"num_hidden_layers"}, 1).value_or(0);
}

/// "proportional": all of a head is rotated, by frequencies base^(−2i / width) of the first pairs,
/// a part of all, and by none of the others, which longrope's divisors make 0.
void turn_some_pairs(LayerReading& to) {
  const std::optional<std::size_t> width = to.head_width();
  if (!width) return; // the number of heads is missing, which is an error of its own
  const double part = rope_number(to, "partial_rotary_factor").value_or(0.25),
               factor = rope_number(to, "factor").value_or(1);
  if (!(part >= 0 && part <= 1) || !(factor > 0))
    fail("{}: config.json's rope_parameters have partial_rotary_factor {} and factor {}: 0 to 1, "
         "and a number above 0 expected",
         to.group().contents->name, part, factor);
  use_gguf_divisors(to);
  const auto turned = static_cast<std::size_t>(part * static_cast<double>(*width) / 2);
  Tensor divisors(DType::f64, {*width / 2});
  for (std::size_t i = 0; i < divisors.count(); ++i)
    divisors.as_mutable<double>()[i] =
        i < turned ? factor : std::numeric_limits<double>::infinity();
  for (const char* name : {"rope_short_factor", "rope_long_factor"})
    to.parts[name] = {divisors, "config.json: rope_type proportional"};
  to.set("rope_scaling", "longrope", "config.json: rope_type proportional");
}

/// EmbeddingGemma also sees the keys after a token: W / 2 of a window of W keys on each side.
void see_both_sides(LayerReading& to) {
  to.set("causal", "false", "config.json: use_bidirectional_attention");
  for (LayerReading::FamilySetting& setting : to.settings) {
    if (setting.name != "window_left") continue;
    const std::size_t W = parse_number<std::size_t>(setting.value).value_or(0) + 1;
    setting.value = std::to_string(W / 2);
    to.set("window_right", setting.value, setting.origin);
    return;
  }
}

} // namespace

/// Whether hidden_act is computed literally, as by the versions of Transformers from 5 on, which
/// transformers_version names.
bool computes_hidden_act(const Group& group) {
  const std::string version = group.configured("transformers_version").value_or("");
  return parse_number<int>(version.substr(0, version.find('.'))).value_or(0) >= 5 &&
         group.configured("hidden_act");
}

/// scale = 1/√query_pre_attn_scalar, which may differ from the width of a head.
void step_query_scalar(LayerReading& to, const JsonTree& arguments) {
  const std::optional<double> scalar = to.positive_number({"query_pre_attn_scalar"});
  const double usual = number_in(arguments, "default").value_or(256);
  to.set("scale", fmt::format("{}", 1 / std::sqrt(scalar.value_or(usual))),
         scalar ? "config.json: query_pre_attn_scalar" : "");
}

/// Old configs have hidden_act "gelu" where the tanh form is meant, as in hidden_activation.
/// {"two_keys": true}: Gemma 1, where transformers_version decides which of the two is computed.
void step_gemma_activation(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const auto at = group.config->find("hidden_act");
  if (at != group.config->end() && at->second.starts_with("gelu")) group.has_key("hidden_act");
  if (!flag_in(arguments, "two_keys")) return;
  const auto newer = group.configured("hidden_activation"), older = group.configured("hidden_act");
  if (computes_hidden_act(group)) {
    if (older == "gelu")
      to.note("config.json has hidden_act gelu, which is computed; the models were trained with "
              "gelu_pytorch_tanh");
    if (newer && newer != older)
      to.warn(fmt::format("config.json has hidden_activation {} and hidden_act {}: the second is "
                          "read, by its transformers_version",
                          *newer, *older));
    return;
  }
  if (!newer && older && *older != "gelu" && *older != "gelu_pytorch_tanh")
    to.warn(fmt::format("config.json has hidden_act {}: read as gelu_pytorch_tanh; "
                        "hidden_activation {} computes it",
                        *older, *older));
  if (!newer && older == "gelu")
    to.note("config.json has hidden_act gelu: read as gelu_pytorch_tanh, with which the models "
            "were trained; hidden_activation gelu computes gelu");
  if (newer && newer != older && newer != "gelu_pytorch_tanh")
    to.note(fmt::format("config.json has hidden_activation {}, which is computed; hidden_act is "
                        "ignored",
                        *newer));
}

/// null means no cap; only a config without the key means 50. A cap of 0 would divide by zero.
void step_gemma2_softcap(LayerReading& to, const JsonTree&) {
  to.positive_number({"attn_logit_softcapping"});
  if (!to.set_from_config("softcap", {"attn_logit_softcapping"}) &&
      !to.group().has_key("attn_logit_softcapping"))
    to.set("softcap", "50");
}

/// Layers with a window rotate with a base of their own, without rope_scaling. Transformers' Gemma
/// 3 ignores attn_logit_softcapping, so applying the cap would compute another model.
/// {"each_fifth": true}: each fifth layer has no window, not each sixth; {"window": W}: without
/// sliding_window in config.json.
void step_gemma3_positions(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  if (const auto cap = to.number({"attn_logit_softcapping"}))
    to.warn(message("config.json has attn_logit_softcapping {}: not computed, as in "
                    "Transformers' Gemma 3; <softcap> {} computes it",
                    *cap, *cap));
  const auto slides = flag_in(arguments, "each_fifth") ? all_but_every_fifth : all_but_every_sixth;
  const bool sliding = is_sliding(group, slides).value_or(false);
  if (sliding)
    set_rotary(to, {.style = "half",
                    .base_keys = {"rope_local_base_freq"},
                    .layer_type = "sliding_attention",
                    .scaled = false});
  else
    set_rotary(to, {.style = "half", .base = 1e6, .layer_type = "full_attention"});
  set_window(to, slides, static_cast<std::size_t>(number_in(arguments, "window").value_or(4096)));
  if (group.is_true({"use_bidirectional_attention"})) see_both_sides(to);
}

/// Layers with a window have a rotation of their own; the others turn some pairs of a wider head,
/// by rope_parameters.
void step_gemma4_positions(LayerReading& to, const JsonTree&) {
  const bool sliding = is_sliding(to.group(), all_but_sixth_and_last).value_or(false);
  const char* const kind = sliding ? "sliding_attention" : "full_attention";
  const std::optional<std::string> type =
      to.group().configured(fmt::format("rope_parameters.{}.rope_type", kind));
  const bool some_pairs = type ? *type == "proportional" : !sliding;
  set_rotary(
      to,
      {.style = "half", .base = sliding ? 1e4 : 1e6, .layer_type = kind, .own_pairs = some_pairs});
  if (some_pairs) turn_some_pairs(to);
  set_window(to, all_but_sixth_and_last, 512);
}

/// Whether a layer sees all keys before a query; one without a number is taken for one that does.
bool gemma4_is_full(const Group& group) {
  return !is_sliding(group, all_but_sixth_and_last).value_or(false);
}

/// The last layers take keys and values of earlier ones.
bool shares_keys(const Group& group) {
  const std::size_t layers = group.configured_count({"num_hidden_layers"}).value_or(0),
                    last = group.configured_count({"num_kv_shared_layers"}).value_or(0);
  return last > 0 && group.number().value_or(0) + last >= layers;
}

} // namespace mha::naming
