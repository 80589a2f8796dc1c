#pragma once
// Names of LLaMA's relatives: q_proj, k_proj, v_proj, o_proj (out, in) under layers.N.self_attn.

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

/// The four projections, QK normalisation where there is one, the heads, causal, and the RMS or
/// layer normalisation `input_layernorm` before them.
void take_llama(Translation& to);

/// The normalisation of queries and keys, where there is one: q_norm, RMS unless it has a bias or
/// `layer` says so; q_layernorm, a layer normalisation, in StableLM one module a head (norms.N).
void take_qk_norm(Translation& to, bool layer = false);

/// Throws Error where q_norm or k_norm is missing, in families that always have both, or where it
/// is of a head and not as wide as one.
void require_qk_norm(const Group& group, bool of_heads = true);

/// Whether q_norm works on one head, and not on the whole projection.
bool norms_heads(const Group& group);

} // namespace mha::naming
