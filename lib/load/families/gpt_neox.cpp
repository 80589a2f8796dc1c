// GPT-NeoX and Pythia: attention.query_key_value (out, in), each head's query, key and value rows
// together; a quarter of each head is rotated.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

bool recognises(const Group& group) {
  return group.is_model({"gpt_neox"}) || group.prefix == "attention." ||
         group.prefix.ends_with(".attention.");
}

void translate(const Group& group, Translation& to) {
  to.expect_models({"gpt_neox"});
  to.take_fused("query_key_value", "per_group"), to.take_output("dense");
  to.pass_over({"bias"}, "the causal mask's buffer, not a bias");
  to.pass_over({"masked_bias"}, "what the mask fills in, not a bias");
  to.set_from_config("num_heads", {"num_attention_heads"});
  to.set("causal", "true");
  set_rotary(to, {.style = "half", .part = 0.25, .base_keys = {"rotary_emb_base", "rope_theta"}});
  to.normalises(NormKind::layer, {group.parent() + "input_layernorm"}, {"layer_norm_eps"}, 1e-5);
}

} // namespace

const Family gpt_neox{"gpt_neox",
                      "GPT-NeoX",
                      "query_key_value.weight dense.weight",
                      "query_key_value.bias dense.bias bias masked_bias rotary_emb.inv_freq",
                      recognises,
                      translate};

} // namespace mha::naming
