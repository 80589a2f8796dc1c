// GPT-NeoX and Pythia: attention.query_key_value (out, in), each head's query, key and value rows
// together; a quarter of each head is rotated. GPT-NeoX Japanese has no biases but the last layer's
// dense_bias; Persimmon normalises queries and keys.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

bool is_gpt_neox(const Group& group) {
  return group.is_model({"gpt_neox", "gpt_neox_japanese", "persimmon"}) ||
         group.prefix == "attention." || group.prefix.ends_with(".attention.");
}

/// Layer norms of each head's queries and keys, unless qk_layernorm is false.
void take_norms_of_persimmon(Translation& to) {
  if (!to.is_true({"qk_layernorm"}, true)) return;
  for (const std::string letter : {"q", "k"})
    for (const std::string part : {".weight", ".bias"}) {
      const Group& group = to.group();
      if (!group.has(letter + "_layernorm" + part))
        fail("{}: {}{}_layernorm{} is missing, which models of this kind have",
             group.contents->name, group.prefix, letter, part);
      to.take(letter + "_norm" + part, letter + "_layernorm" + part);
    }
  to.set("qk_norm", "layer");
  if (!to.set_from_config("qk_norm_eps", {"layer_norm_eps"})) to.set("qk_norm_eps", "1e-05");
}

void translate_gpt_neox(const Group& group, Translation& to) {
  const bool japanese = group.is_model({"gpt_neox_japanese"}),
             persimmon = group.is_model({"persimmon"}),
             biased = !japanese && (persimmon || to.is_true({"attention_bias"}, true)),
             known = group.configured("model_type").has_value();
  for (const char* name : {"query_key_value.bias", "dense.bias"}) {
    if (biased && known && !group.has(name))
      fail("{}: {}{} is missing, though config.json does not say attention_bias false",
           group.contents->name, group.prefix, name);
    if (!biased)
      to.pass_over_with_warning(name, japanese ? "models of this kind have none"
                                               : "config.json says attention_bias false");
  }
  to.take_linear("W_qkv", "query_key_value.weight"), to.take_linear("W_o", "dense.weight");
  to.set("qkv_order", "per_group");
  if (biased) to.take("b_qkv", "query_key_value.bias"), to.take("b_o", "dense.bias");
  if (japanese) to.take("b_o", "dense_bias"); // the last layer's
  to.pass_over({"bias"}, "the causal mask's buffer, not a bias");
  to.pass_over({"masked_bias"}, "what the mask fills in, not a bias");
  to.set_from_config("num_heads", {"num_attention_heads"});
  to.set("causal", "true");
  if (persimmon) take_norms_of_persimmon(to);
  set_rotary(to, {.style = "half",
                  .part = japanese    ? 1
                          : persimmon ? 0.5
                                      : 0.25,
                  .base_keys = {"rotary_emb_base", "rope_theta"},
                  .part_keys = {"rotary_pct", "partial_rotary_factor"}});
  to.normalises(NormKind::layer, {group.parent() + "input_layernorm"}, {"layer_norm_eps"}, 1e-5);
}

/// use_parallel_residual false: one after the other, as in GPT-NeoX Japanese and Persimmon.
void settle_gpt_neox(const Group& group, ModelRecord& record) {
  if (group.is_model({"gpt_neox_japanese"})) {
    record.shape = BlockShape::pre;
    record.always = "input_layernorm.bias post_attention_layernorm.bias";
    record.not_in_all = "attention.dense_bias";
    record.mlp_bias = Bias::never;
    group.configured("intermediate_multiple_size"); // which the tensors have
    return;
  }
  if (group.is_model({"persimmon"})) {
    record.shape = BlockShape::pre;
    record.tokens = "embed_tokens", record.last_norm = "final_layernorm", record.head = "lm_head";
    record.activation = "relu2";
    return;
  }
  if (!group.is_true({"use_parallel_residual"}, true)) record.shape = BlockShape::pre;
}

constexpr ModelRecord gpt_neox_record{
    .models = "gpt_neox gpt_neox_japanese persimmon",
    .layers = "layers",
    .always = "mlp.dense_h_to_4h.bias mlp.dense_4h_to_h.bias input_layernorm.bias "
              "post_attention_layernorm.bias",
    .tokens = "embed_in",
    .shape = BlockShape::parallel,
    .eps_keys = "layer_norm_eps",
    .norm_bias = Bias::always,
    .pre_mlp_norm = "post_attention_layernorm",
    .mlp_in = "mlp.dense_h_to_4h",
    .mlp_out = "mlp.dense_4h_to_h",
    .mlp_bias = Bias::always,
    .activation_keys = "hidden_act",
    .activation = "gelu",
    .last_norm = "final_layer_norm",
    .head = "embed_out",
    .settle = settle_gpt_neox,
};

} // namespace

const Family gpt_neox{
    "gpt_neox",
    "GPT-NeoX",
    gpt_neox_record.models,
    "query_key_value.weight dense.weight",
    "query_key_value.bias dense.bias dense_bias bias masked_bias rotary_emb.inv_freq "
    "q_layernorm.weight q_layernorm.bias k_layernorm.weight k_layernorm.bias",
    is_gpt_neox,
    translate_gpt_neox,
    &gpt_neox_record};

} // namespace mha::naming
