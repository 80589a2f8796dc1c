// GLM-4 and GLM-4.5: LLaMA's names with biases on q, k and v; half of each head rotates, in pairs
// (2i, 2i + 1), but in GLM-4.5 (glm4_moe) in pairs (i, i + n/2).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_glm(const Group& group) {
  return group.is_model({"glm", "glm4", "glm4_moe"});
}

void translate_glm(const Group& group, Translation& to) {
  take_llama(to);
  set_rotary(to, {.style = group.is_model({"glm4_moe"}) ? "half" : "interleaved", .part = 0.5});
}

/// GLM-4's later models normalise before and after.
void settle_glm(const Group& group, ModelRecord& record) {
  if (!group.is_model({"glm4"})) return;
  record.shape = BlockShape::sandwich;
  record.post_attention_norm = "post_self_attn_layernorm";
  record.post_mlp_norm = "post_mlp_layernorm";
}

constexpr ModelRecord of_glm() {
  ModelRecord record = llama_model("glm glm4");
  record.mlp_in = record.mlp_up = "";
  record.mlp_gate_up = "mlp.gate_up_proj";
  record.eps = 1.5625e-7;
  record.settle = settle_glm;
  return record;
}
constexpr ModelRecord glm_record = of_glm();

} // namespace

const Family glm{"glm",       "GLM-4", "glm glm4 glm4_moe", llama_needs,
                 llama_knows, is_glm,  translate_glm,       &glm_record};

} // namespace mha::naming
