// Falcon: self_attention.query_key_value (out, in) in three layouts: the new decoder architecture
// has, per key/value head, its queries, its key, its value; multi_query all queries, one key, one
// value; the oldest each head's query, key and value. Rotary embedding, or ALiBi that is scaled
// with the scores.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

bool is_falcon(const Group& group) {
  if (group.configured("model_type"))
    return group.is_model({"falcon", "RefinedWeb", "RefinedWebModel"});
  return group.within({"self_attention."});
}

void set_layout(const Group& group, Translation& to) {
  const Shape s = group.shape("query_key_value.weight");
  const bool threefold = s.size() == 2 && s[0] == 3 * s[1];
  const bool grouped = to.is_true({"new_decoder_architecture"}, group.beside("ln_attn.weight"));
  if (grouped) {
    to.take_fused("query_key_value", "per_group");
    to.set_from_config("num_kv_heads", {"num_kv_heads", "n_head_kv"});
  } else if (to.is_true({"multi_query"}, !threefold)) {
    to.take_fused("query_key_value", "qkv");
    to.set("num_kv_heads", "1");
    group.says("num_kv_heads"); // of the new architecture alone
  } else {
    to.take_fused("query_key_value", "per_group");
  }
}

void translate_falcon(const Group& group, Translation& to) {
  to.set_from_config("num_heads", {"num_attention_heads", "n_head"});
  set_layout(group, to);
  to.take_output("dense");
  to.set("causal", "true");
  if (to.is_true({"alibi"})) {
    to.set("alibi", "falcon", "config.json");
    to.note("ALiBi is added once, as by Transformers' sdpa; Transformers' eager attention, which "
            "output_attentions asks for, adds it twice");
    for (const char* key :
         {"rope_theta", "rope_parameters.rope_theta", "rope_parameters.rope_type"})
      group.says(key); // which Transformers writes for every Falcon
  } else {
    set_rotary(to, {.style = "half"});
  }
  to.normalises(NormKind::layer, {group.parent() + "ln_attn", group.parent() + "input_layernorm"},
                {"layer_norm_epsilon"}, 1e-5);
}

/// The layers' norms, and whether attention and feed-forward stand beside each other. Falcon 2 has
/// one norm for both, although its rows lie as in the new architecture.
void settle_falcon(const Group& group, ModelRecord& record) {
  record.mlp_bias = group.is_true({"bias"}) ? Bias::always : Bias::never;
  if (!group.says("bias")) record.mlp_bias = Bias::if_there;
  const bool said = group.is_true({"parallel_attn"}, true);
  const bool parallel =
      group.is_true({"new_decoder_architecture"}, group.beside("ln_attn.weight")) || said;
  group.flag({"multi_query"}); // of the older architectures alone
  if (!parallel) {
    record.shape = BlockShape::pre;
    record.pre_mlp_norm = "post_attention_layernorm";
  } else if (group.configured_count({"num_ln_in_parallel_attn"}).value_or(1) > 1 ||
             group.beside("ln_mlp.weight")) {
    record.pre_mlp_norm = "ln_mlp";
  }
  if (group.is_true({"apply_residual_connection_post_layernorm"}))
    fail("{}: config.json says apply_residual_connection_post_layernorm, which is not covered as a "
         "whole model",
         group.contents->name);
}

constexpr ModelRecord falcon_record{
    .models = "falcon RefinedWeb RefinedWebModel",
    .layers = "h",
    .tokens = "word_embeddings",
    .shape = BlockShape::parallel,
    .eps_keys = "layer_norm_epsilon",
    .norm_bias = Bias::always,
    .pre_mlp_norm = "input_layernorm",
    .mlp_in = "mlp.dense_h_to_4h",
    .mlp_out = "mlp.dense_4h_to_h",
    .activation_keys = "activation",
    .activation = "gelu",
    .last_norm = "ln_f",
    .head = "lm_head",
    .tied = true,
    .settle = settle_falcon,
};

} // namespace

const Family falcon{"falcon",
                    "Falcon",
                    falcon_record.models,
                    "query_key_value.weight dense.weight",
                    "query_key_value.bias dense.bias",
                    is_falcon,
                    translate_falcon,
                    &falcon_record,
                    nullptr,
                    "ln_attn ln_mlp post_attention_layernorm"};

} // namespace mha::naming
