// LLaMA, Mistral and what is named like them: q_proj, k_proj, v_proj, o_proj, (out, in).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate(const Group&, Translation& to) {
  // "attention-only": this project's own example layers.
  to.expect_models({"llama", "mistral", "mixtral", "granite", "granitemoe", "ministral", "stablelm",
                    "starcoder2", "attention-only"});
  take_llama(to);
  // Hugging Face's layout pairs dimension i with i + d/2.
  set_rotary(to, {.style = "half"});
  set_window(to, every_layer);
}

constexpr ModelRecord model{
    .models = "llama mistral ministral",
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

const Family llama{"llama", "LLaMA", llama_needs, llama_knows, nullptr, translate, &model};

} // namespace mha::naming
