// Qwen2, and the text part of Qwen2-VL and Qwen2.5-VL: LLaMA's names with biases on q, k and v,
// none on o. The latter have three rows of positions (mrope_section).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool recognises(const Group& group) {
  if (group.configured("model_type"))
    return group.is_model({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"});
  return group.has("q_proj.bias") && !group.has("o_proj.bias") && !group.has("q_norm.weight");
}

void translate(const Group&, Translation& to) {
  take_llama(to);
  set_rotary(to, {.style = "half"});
  // use_sliding_window is usually false; the lower layers see everything even if it is true.
  set_window(to, upper_layers);
}

constexpr ModelRecord model{
    .models = "qwen2",
    .layers = "layers",
    .tokens = "embed_tokens",
    .norm = InputNorm::rms,
    .eps_keys = "rms_norm_eps",
    .eps = 1e-6,
    .before_mlp = "post_attention_layernorm",
    .mlp_in = "mlp.gate_proj",
    .mlp_up = "mlp.up_proj",
    .mlp_out = "mlp.down_proj",
    .activation_keys = "hidden_act",
    .activation = "silu",
    .last_norm = "norm",
    .head = "lm_head",
};

} // namespace

const Family qwen2{"qwen2", "Qwen2", llama_needs, llama_knows, recognises, translate, &model};

} // namespace mha::naming
