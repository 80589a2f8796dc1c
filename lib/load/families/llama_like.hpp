#pragma once
// Names of LLaMA's relatives: q_proj, k_proj, v_proj, o_proj (out, in) under layers.N.self_attn.

#include <mha/load/families/llama_traits.hpp>
#include <mha/load/families/model.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

inline constexpr std::string_view llama_needs =
    "q_proj.weight k_proj.weight v_proj.weight o_proj.weight";
inline constexpr std::string_view llama_knows =
    "q_proj.bias k_proj.bias v_proj.bias o_proj.bias q_norm.weight k_norm.weight q_norm.bias "
    "k_norm.bias sinks q_layernorm.weight k_layernorm.weight q_layernorm.bias k_layernorm.bias "
    "q_layernorm.norms.0.weight k_layernorm.norms.0.weight rotary_emb.inv_freq";

/// A whole model of LLaMA's shape, for these model_types: RMS norms before attention and before a
/// feed-forward gated with silu.
constexpr ModelRecord llama_model(std::string_view models) {
  return {
      .models = models,
      .layers = "layers",
      .tokens = "embed_tokens",
      .norm = InputNorm::rms,
      .eps_keys = "rms_norm_eps",
      .eps = 1e-6,
      .pre_mlp_norm = "post_attention_layernorm",
      .mlp_in = "mlp.gate_proj",
      .mlp_up = "mlp.up_proj",
      .mlp_out = "mlp.down_proj",
      .mlp_bias = Bias::never,
      .activation_keys = "hidden_act",
      .activation = "silu",
      .last_norm = "norm",
      .head = "lm_head",
  };
}

/// The same with the norms behind attention and feed-forward, before each is added.
constexpr ModelRecord llama_model_normed_after(std::string_view models) {
  ModelRecord record = llama_model(models);
  record.shape = BlockShape::post_inside;
  record.eps = 1e-5;
  record.pre_mlp_norm = "";
  record.post_attention_norm = "post_attention_layernorm";
  record.post_mlp_norm = "post_feedforward_layernorm";
  return record;
}

/// Reads the four projections, the QK norm where there is one, the numbers of heads, and
/// input_layernorm, an RMS or layer norm; sets causal.
void take_llama(Translation& to);

/// Whether config.json, or the kind of model, says that a module has biases.
bool is_biased(const Group& group, const BiasKey& bias);

/// The epsilon of all norms of LLaMA's kin: its key and what it is where config.json is silent.
void take_epsilon(const Group& group, ModelRecord& record);

/// Reads the norm of queries and keys, where there is one. q_norm is an RMS norm unless it has a
/// bias or `is_layer_norm`; q_layernorm is a layer norm, in StableLM one module a head (norms.N).
void take_qk_norm(Translation& to, bool is_layer_norm = false);

/// Throws Error where q_norm or k_norm is missing, in families that always have both, or, with
/// `of_heads`, where it is not as wide as a head.
void require_qk_norm(const Group& group, bool of_heads = true);

/// Whether q_norm normalises each head by itself, and not the whole projection.
bool qk_norm_is_per_head(const Group& group);

} // namespace mha::naming
