// Phi-1, 1.5 and 2: q_proj, k_proj, v_proj, dense, all with biases; older files mixer.Wqkv and
// mixer.out_proj. A part of each head is rotated.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void finish(const Group& group, Translation& to, std::string_view eps_key) {
  to.set_from_config("num_heads", {"num_attention_heads", "n_head"});
  to.set_from_config("num_kv_heads", {"num_key_value_heads"});
  to.set("causal", "true");
  set_rotary(to, {.style = "half", .part = 0.5, .dims_key = "rotary_dim"});
  to.normalises(NormKind::layer, {group.parent() + "input_layernorm", group.parent() + "ln"},
                {eps_key}, 1e-5);
}

void translate_phi(const Group& group, Translation& to) {
  to.take_projections("q_proj", "k_proj", "v_proj", "dense");
  take_qk_norm(to);
  finish(group, to, "layer_norm_eps");
}

bool recognises_mixer(const Group& group) {
  return group.within({"mixer."});
}
void translate_mixer(const Group& group, Translation& to) {
  to.take_fused("Wqkv", "qkv"), to.take_output("out_proj");
  finish(group, to, "layer_norm_epsilon");
}

constexpr ModelRecord phi_record{
    .models = "phi",
    .layers = "layers",
    .always = "input_layernorm.bias self_attn.q_proj.bias self_attn.k_proj.bias "
              "self_attn.v_proj.bias self_attn.dense.bias",
    .tokens = "embed_tokens",
    .shape = BlockShape::parallel,
    .eps_keys = "layer_norm_eps",
    .norm_bias = Bias::always,
    .pre_mlp_norm = "input_layernorm",
    .mlp_in = "mlp.fc1",
    .mlp_out = "mlp.fc2",
    .mlp_bias = Bias::always,
    .activation_keys = "hidden_act",
    .activation = "gelu_new",
    .last_norm = "final_layernorm",
    .head = "lm_head",
    .head_has_bias = Bias::always,
};

} // namespace

const Family phi{"phi",
                 "Phi",
                 phi_record.models,
                 "q_proj.weight k_proj.weight v_proj.weight dense.weight",
                 "q_proj.bias k_proj.bias v_proj.bias dense.bias q_layernorm.weight "
                 "k_layernorm.weight q_layernorm.bias k_layernorm.bias",
                 nullptr,
                 translate_phi,
                 &phi_record};
const Family phi_mixer{"phi_mixer",
                       "Phi (mixer)",
                       "phi-msft mixformer-sequential",
                       "Wqkv.weight out_proj.weight",
                       "Wqkv.bias out_proj.bias",
                       recognises_mixer,
                       translate_mixer,
                       nullptr,
                       nullptr,
                       "ln mlp.fc1 mlp.fc2"};

} // namespace mha::naming
