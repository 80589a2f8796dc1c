// LLaMA, Mistral and what is named like them: q_proj, k_proj, v_proj, o_proj, (out, in).

#include "naming/namings.hpp"

namespace mha::naming {

namespace {

bool recognises(const Group& group) {
  return group.has("q_proj.weight") && group.has("k_proj.weight") && group.has("v_proj.weight") &&
         group.has("o_proj.weight");
}

void translate(const Group& group, Translation& to) {
  to.take_linear("W_q", "q_proj.weight"), to.take("b_q", "q_proj.bias");
  to.take_linear("W_k", "k_proj.weight"), to.take("b_k", "k_proj.bias");
  to.take_linear("W_v", "v_proj.weight"), to.take("b_v", "v_proj.bias");
  to.take_linear("W_o", "o_proj.weight"), to.take("b_o", "o_proj.bias");
  to.take_elsewhere("norm.weight", group.parent() + "input_layernorm.weight");

  to.set("causal", "true", "LLaMA names");
  to.set_from_config("num_heads", {"num_attention_heads"});
  to.set_from_config("num_kv_heads", {"num_key_value_heads"});

  // Hugging Face's layout pairs dimension i with i + d/2. Scores before the rotary embedding are of
  // no use in these models, so it is on unless config.json says otherwise.
  const std::optional<std::string> rope = group.configured({"rope"});
  if (rope) to.set("rope", *rope, "config.json");
  else to.set("rope", "half", "LLaMA names");
  to.set_from_config("rope_base", {"rope_theta"});
  to.set_from_config("input_norm_eps", {"rms_norm_eps"});
}

} // namespace

const Family llama{"llama", "LLaMA",
                   "q_proj.weight q_proj.bias k_proj.weight k_proj.bias v_proj.weight v_proj.bias o_proj.weight "
                   "o_proj.bias",
                   recognises, translate};

} // namespace mha::naming
