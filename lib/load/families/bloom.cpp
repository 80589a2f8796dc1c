// BLOOM: self_attention.query_key_value (out, in), each head's query, key and value rows together,
// and ALiBi, written as slope · key position.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

// Falcon has the same names; BLOOM always has biases.
bool is_bloom(const Group& group) {
  if (group.configured("model_type")) return group.is_model({"bloom"});
  return group.has("query_key_value.bias") && group.within({"self_attention."});
}

void translate_bloom(const Group& group, Translation& to) {
  if (!group.configured("model_type"))
    to.warn(
        message("query_key_value and dense with biases: taken as BLOOM; Falcon has the same names, "
                "<naming> falcon"));
  to.take_fused("query_key_value", "per_group"), to.take_output("dense");
  to.set_from_config("num_heads", {"n_head", "num_attention_heads"});
  to.set("causal", "true");
  to.set("alibi", "bloom");
  to.normalises(NormKind::layer, {group.parent() + "input_layernorm"}, {"layer_norm_epsilon"},
                1e-5);
}

void settle_bloom(const Group& group, ModelRecord&) {
  if (group.is_true({"apply_residual_connection_post_layernorm"}))
    fail("{}: config.json says apply_residual_connection_post_layernorm, which is not covered as a "
         "whole model",
         group.contents->name);
}

constexpr ModelRecord bloom_record{
    .models = "bloom",
    .layers = "h",
    .always = "self_attention.query_key_value.bias self_attention.dense.bias input_layernorm.bias "
              "post_attention_layernorm.bias",
    .tokens = "word_embeddings",
    .embedding_norm = "word_embeddings_layernorm",
    .eps_keys = "layer_norm_epsilon",
    .norm_bias = Bias::always,
    .pre_mlp_norm = "post_attention_layernorm",
    .mlp_in = "mlp.dense_h_to_4h",
    .mlp_out = "mlp.dense_4h_to_h",
    .mlp_bias = Bias::always,
    .activation = "gelu_new",
    .attention_returns = Stage::residual,
    .mlp_returns = Stage::resid_post,
    .last_norm = "ln_f",
    .head = "lm_head",
    .tied = true,
    .settle = settle_bloom,
};

} // namespace

const Family bloom{"bloom",
                   "BLOOM",
                   bloom_record.models,
                   "query_key_value.weight dense.weight",
                   "query_key_value.bias dense.bias",
                   is_bloom,
                   translate_bloom,
                   &bloom_record};

} // namespace mha::naming
