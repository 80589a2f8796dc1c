#pragma once
// GPT-J's tensor names around attention, which CodeGen shares.

#include <mha/load/families/model.hpp>

namespace mha::naming {

/// A whole model of GPT-J's shape, for these model_types: attention and feed-forward beside each
/// other behind one layer norm, ln_1.
constexpr ModelRecord gptj_model(std::string_view models) {
  return {
      .models = models,
      .layers = "h",
      .always = "ln_1.bias",
      .tokens = "wte",
      .shape = BlockShape::parallel,
      .eps_keys = "layer_norm_epsilon",
      .norm_bias = Bias::always,
      .pre_mlp_norm = "ln_1",
      .mlp_in = "mlp.fc_in",
      .mlp_out = "mlp.fc_out",
      .mlp_bias = Bias::always,
      .activation_keys = "activation_function",
      .activation = "gelu_new",
      .last_norm = "ln_f",
      .head = "lm_head",
      .head_has_bias = Bias::always,
  };
}

} // namespace mha::naming
