// GPT-J: h.N.attn.{q,k,v,out}_proj (out, in) without biases; the first rotary_dim dimensions of a
// head are rotated, neighbours in pairs.

#include <mha/load/families/gptj.hpp>
#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

bool is_gptj(const Group& group) {
  return group.is_model({"gptj"}) || group.prefix.ends_with(".attn.") || group.prefix == "attn.";
}

void translate_gptj(const Group& group, Translation& to) {
  to.take_projections("q_proj", "k_proj", "v_proj", "out_proj");
  to.pass_over({"bias"}, "the causal mask's buffer, not a bias");
  to.pass_over({"masked_bias"}, "what the mask fills in, not a bias");
  to.set_from_config("num_heads", {"n_head", "num_attention_heads"});
  to.set("causal", "true");
  set_rotary_of_gptj(to);
  to.normalises(NormKind::layer, {group.parent() + "ln_1"}, {"layer_norm_epsilon"}, 1e-5);
}

constexpr ModelRecord gptj_record = gptj_model("gptj");

} // namespace

const Family gptj{"gptj",
                  "GPT-J",
                  gptj_record.models,
                  "q_proj.weight k_proj.weight v_proj.weight out_proj.weight",
                  "q_proj.bias k_proj.bias v_proj.bias out_proj.bias bias masked_bias",
                  is_gptj,
                  translate_gptj,
                  &gptj_record};

} // namespace mha::naming
