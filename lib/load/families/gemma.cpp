// Gemma 1, 2 and 3: LLaMA's names; every RMS normalisation multiplies by 1 + w. Gemma 2 scales by
// query_pre_attn_scalar, caps the scores and has a window on every second layer; Gemma 3 normalises
// queries and keys and has a window, and a rotary base of its own, on five layers of six.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>
#include <mha/system/parse.hpp>

#include <cmath>

namespace mha::naming {

namespace {

// Gemma 2 and 3 normalise before and after attention and before and after the feed-forward part.
bool has_four_norms(const Group& group) {
  return group.beside("pre_feedforward_layernorm.weight");
}

bool recognises1(const Group& group) {
  return group.is_model({"gemma"});
}
bool recognises2(const Group& group) {
  if (group.configured("model_type")) return group.is_model({"gemma2", "vaultgemma"});
  return has_four_norms(group) && !group.has("q_norm.weight");
}
bool recognises3(const Group& group) {
  if (group.configured("model_type")) return group.is_model({"gemma3", "gemma3_text"});
  return has_four_norms(group) && qk_norm_is_per_head(group);
}

/// scale = 1/√query_pre_attn_scalar, which need not be the width of a head.
void set_gemma_scale(Translation& to) {
  const std::optional<double> scalar = to.positive_number({"query_pre_attn_scalar"});
  to.set("scale", fmt::format("{}", 1 / std::sqrt(scalar.value_or(256))),
         scalar ? "config.json: query_pre_attn_scalar" : "");
}

/// `hidden_act` of old configs says "gelu" and means the tanh form, as hidden_activation says.
void know_hidden_act(const Group& group) {
  const auto at = group.config->find("hidden_act");
  if (at != group.config->end() && at->second.starts_with("gelu")) group.says("hidden_act");
}

/// Whether the file is of Transformers 5, whose Gemma 1 computes hidden_act and nothing else.
bool computes_hidden_act(const Group& group) {
  const std::string version = group.configured("transformers_version").value_or("");
  return parse_number<int>(version.substr(0, version.find('.'))).value_or(0) >= 5 &&
         group.configured("hidden_act");
}

/// Versions of Transformers read Gemma 1's two keys differently; those from 4.39 to 4.44 as here,
/// where the file is not of Transformers 5.
void note_activation(const Group& group, Translation& to) {
  if (!group.is_model({"gemma"})) return;
  const auto newer = group.configured("hidden_activation"), older = group.configured("hidden_act");
  if (computes_hidden_act(group)) {
    if (older == "gelu")
      to.note("config.json says hidden_act gelu, and that it is of Transformers 5, which computes "
              "gelu, as is done here; the models were trained with gelu_pytorch_tanh");
    if (newer && newer != older)
      to.warn(fmt::format("config.json says hidden_activation {} and hidden_act {}: the second is "
                          "read, as in Transformers 5, which the file is of",
                          *newer, *older));
    return;
  }
  if (!newer && older && *older != "gelu" && *older != "gelu_pytorch_tanh")
    to.warn(
        fmt::format("config.json says hidden_act {}: read as gelu_pytorch_tanh, as in "
                    "Transformers 4.39 to 4.44; others compute hidden_act, as hidden_activation "
                    "{} does here",
                    *older, *older));
  if (!newer && older == "gelu")
    to.note("config.json says hidden_act gelu: read as gelu_pytorch_tanh, with which the models "
            "were trained; some versions of Transformers compute gelu itself, as hidden_activation "
            "gelu does here");
  if (newer && newer != older && newer != "gelu_pytorch_tanh")
    to.note(fmt::format("config.json says hidden_activation {}, which is read here; some versions "
                        "of Transformers read hidden_act alone",
                        *newer));
}

void translate1(const Group& group, Translation& to) {
  know_hidden_act(group);
  note_activation(group, to);
  take_llama(to);
  to.norm.one_plus = true;
  set_rotary(to, {.style = "half"});
}

void translate2(const Group& group, Translation& to) {
  translate1(group, to);
  set_gemma_scale(to);
  // null is no cap; only a config without the key means 50. A cap of 0 is a division by it.
  to.positive_number({"attn_logit_softcapping"});
  if (!to.set_from_config("softcap", {"attn_logit_softcapping"}) &&
      !group.says("attn_logit_softcapping"))
    to.set("softcap", "50");
  set_window(to, even_layers, 4096);
}

bool slides3(const Group& group, std::size_t layer) {
  return (layer + 1) % group.configured_count({"sliding_window_pattern"}, 1).value_or(6) != 0;
}

/// EmbeddingGemma sees what comes after a token, too: of a window of W keys W / 2 on each side.
void see_both_sides(Translation& to) {
  to.set("causal", "false", "config.json: use_bidirectional_attention");
  for (Translation::FamilySetting& setting : to.settings) {
    if (setting.name != "window_left") continue;
    const std::size_t W = parse_number<std::size_t>(setting.value).value_or(0) + 1;
    setting.value = std::to_string(W / 2);
    to.set("window_right", setting.value, setting.origin);
    return;
  }
}

void translate3(const Group& group, Translation& to) {
  know_hidden_act(group);
  take_llama(to);
  require_qk_norm(group);
  to.norm.one_plus = true;
  to.set("qk_norm_one_plus", "true");
  set_gemma_scale(to);
  // Transformers' Gemma 3 does not pass attn_logit_softcapping on: a cap would be another model.
  if (const auto cap = to.number({"attn_logit_softcapping"}))
    to.warn(message("config.json says attn_logit_softcapping {}: not computed, as in "
                    "Transformers' Gemma 3; <softcap> {} computes it",
                    *cap, *cap));
  for (const char* key :
       {"rope_theta", "rope_local_base_freq", "rope_parameters.sliding_attention.rope_theta",
        "rope_parameters.sliding_attention.rope_type"})
    group.says(key);
  // Layers with a window rotate by a base of their own, without rope_scaling.
  const bool sliding = is_sliding(group, slides3).value_or(false);
  if (sliding)
    set_rotary(to, {.style = "half",
                    .base_keys = {"rope_local_base_freq"},
                    .layer_type = "sliding_attention",
                    .scaled = false});
  else
    set_rotary(to, {.style = "half", .base = 1e6, .layer_type = "full_attention"});
  set_window(to, slides3, 4096);
  if (group.is_true({"use_bidirectional_attention"})) see_both_sides(to);
}

constexpr ModelRecord one_plus_norms(std::string_view models) {
  ModelRecord record = llama_model(models);
  record.times_root_d = record.one_plus = record.tied = true;
  record.activation_keys = "hidden_activation";
  record.activation = "gelu_pytorch_tanh";
  return record;
}
void settle_gemma1(const Group& group, ModelRecord& record) {
  if (computes_hidden_act(group)) record.activation_keys = "hidden_act";
}
constexpr ModelRecord of_gemma1() {
  ModelRecord record = one_plus_norms("gemma");
  record.settle = settle_gemma1;
  return record;
}
constexpr ModelRecord model1 = of_gemma1();

/// LLaMA's post_attention_layernorm stands before the feed-forward, Gemma 2's behind attention.
constexpr ModelRecord four_norms(std::string_view models) {
  ModelRecord record = one_plus_norms(models);
  record.shape = BlockShape::sandwich;
  record.softcap_key = "final_logit_softcapping";
  record.post_attention_norm = "post_attention_layernorm";
  record.pre_mlp_norm = "pre_feedforward_layernorm";
  record.post_mlp_norm = "post_feedforward_layernorm";
  return record;
}
/// As the scores' cap: null is none, and only a config without the key means 30.
void settle_gemma2(const Group& group, ModelRecord& record) {
  if (!group.says("final_logit_softcapping")) record.softcap = 30;
  if (!group.is_model({"vaultgemma"})) return;
  record.shape = BlockShape::pre; // VaultGemma normalises before alone
  record.post_attention_norm = record.post_mlp_norm = "";
}
constexpr ModelRecord of_gemma2() {
  ModelRecord record = four_norms("gemma2 vaultgemma");
  record.settle = settle_gemma2;
  return record;
}
void settle_gemma3(const Group& group, ModelRecord& record) {
  record.causal = !group.is_true({"use_bidirectional_attention"});
}
constexpr ModelRecord of_gemma3() {
  ModelRecord record = four_norms("gemma3 gemma3_text");
  record.settle = settle_gemma3;
  return record;
}
constexpr ModelRecord model2 = of_gemma2(), model3 = of_gemma3();

} // namespace

const Family gemma{"gemma",     "Gemma",     model1.models, llama_needs,
                   llama_knows, recognises1, translate1,    &model1};
const Family gemma2{"gemma2",    "Gemma 2",   model2.models, llama_needs,
                    llama_knows, recognises2, translate2,    &model2};
const Family gemma3{"gemma3",    "Gemma 3",   model3.models, llama_needs,
                    llama_knows, recognises3, translate3,    &model3};

} // namespace mha::naming
