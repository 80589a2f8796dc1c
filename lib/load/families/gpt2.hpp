#pragma once
// GPT-2's tensor names, which three families share: h.N.attn.c_attn and c_proj.

#include <mha/load/families/family.hpp>
#include <mha/load/families/model.hpp>

namespace mha::naming {

inline constexpr std::string_view gpt2_needs = "c_attn.weight c_proj.weight";
// `bias` and `masked_bias` are the causal mask and what it fills in: never a bias.
inline constexpr std::string_view gpt2_knows =
    "c_attn.bias c_proj.bias q_attn.weight q_attn.bias bias masked_bias";
inline constexpr std::string_view gpt2_beside = "attn crossattention ln_cross_attn";

/// A whole model of GPT-2's names, for these model_types, with nn.Linear's (out, in).
constexpr ModelRecord gpt2_model(std::string_view models) {
  return {
      .models = models,
      .layers = "h",
      .beside = "score classifier multiple_choice_head v_head",
      .tokens = "wte",
      .positions = "wpe",
      .eps_keys = "layer_norm_epsilon",
      .pre_mlp_norm = "ln_2",
      .mlp_in = "mlp.c_fc",
      .mlp_out = "mlp.c_proj",
      .last_norm = "ln_f",
      .head = "lm_head",
      .tied = true,
  };
}

/// The same with every bias there, and an activation that config.json says.
constexpr ModelRecord gpt2_model_with_biases(std::string_view models, std::string_view activation) {
  ModelRecord record = gpt2_model(models);
  record.mlp_bias = record.norm_bias = Bias::always;
  record.activation_keys = "activation_function";
  record.activation = activation;
  return record;
}

/// Heads, causal, ln_1, and the notes on the mask's buffers.
void finish_gpt2(Translation& to);
/// 1/√d, unless scale_attn_weights is false, and 1/(layer + 1) if scale_attn_by_inverse_layer_idx
/// is true.
void set_gpt2_scale(Translation& to);

} // namespace mha::naming
