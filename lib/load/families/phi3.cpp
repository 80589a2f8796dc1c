// Phi-3: qkv_proj (out, in) with the rows of all queries, all keys, all values; o_proj.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_phi3(const Group& group, Translation& to) {
  // Phi-3's projections have no biases, whatever attention_bias says.
  if (to.is_true({"attention_bias"}))
    to.warn("config.json says attention_bias: not read, as in Transformers' Phi-3");
  for (const char* name : {"qkv_proj.bias", "o_proj.bias"})
    to.pass_over_with_warning(name, "models of this kind have none");
  to.take_linear("W_qkv", "qkv_proj.weight"), to.take_linear("W_o", "o_proj.weight");
  to.set("qkv_order", "qkv");
  to.set_from_config("num_heads", {"num_attention_heads"});
  to.set_from_config("num_kv_heads", {"num_key_value_heads"});
  to.set("causal", "true");
  set_rotary(to, {.style = "half"});
  set_window(to, nullptr); // Phi-3 does not read layer_types
  to.normalises(NormKind::rms, {group.parent() + "input_layernorm"}, {"rms_norm_eps"}, 1e-5);
}

constexpr ModelRecord of_phi3() {
  ModelRecord record = llama_model("phi3");
  record.eps = 1e-5;
  record.mlp_in = record.mlp_up = "";
  record.mlp_gate_up = "mlp.gate_up_proj";
  return record;
}
constexpr ModelRecord phi3_record = of_phi3();

} // namespace

const Family phi3{"phi3",
                  "Phi-3",
                  "phi3 phi3_v",
                  "qkv_proj.weight o_proj.weight",
                  "qkv_proj.bias o_proj.bias",
                  nullptr,
                  translate_phi3,
                  &phi3_record};

} // namespace mha::naming
