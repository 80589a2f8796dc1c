// nanoGPT and minGPT: GPT-2's names with nn.Linear's (out, in).

#include <mha/load/families/gpt2.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool recognises(const Group& group) {
  const Shape s = group.shape("c_attn.weight");
  return s.size() == 2 && s[0] == 3 * s[1] && !group.is_model({"gpt_bigcode"});
}

void translate(const Group&, Translation& to) {
  to.take_fused("c_attn", "qkv"), to.take_output("c_proj");
  to.note_square("W_o", "c_proj.weight", "(out, in)", "IO", "gpt2");
  finish_gpt2(to);
}

constexpr ModelRecord model{
    .models = "gpt2 nanogpt",
    .layers = "h",
    .tokens = "wte",
    .positions = "wpe",
    .eps_keys = "layer_norm_epsilon",
    .before_mlp = "ln_2",
    .mlp_in = "mlp.c_fc",
    .mlp_out = "mlp.c_proj",
    .activation = "gelu",
    .last_norm = "ln_f",
    .head = "lm_head",
    .tied = true,
};

} // namespace

const Family nanogpt{"nanogpt", "nanoGPT", gpt2_needs, gpt2_knows, recognises, translate, &model};

} // namespace mha::naming
