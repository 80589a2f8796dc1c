// GPT-2 as Hugging Face has it: Conv1D, so (in, out); c_attn is queries, keys and values side by
// side. Cross-attention has c_attn for keys and values and q_attn for queries.

#include <mha/load/families/gpt2.hpp>
#include <mha/load/families/namings.hpp>

#include <cmath>

namespace mha::naming {

namespace {

bool is_cross(const Group& group) {
  return group.has("q_attn.weight");
}

bool is_gpt2(const Group& group) {
  const Shape s = group.shape("c_attn.weight");
  return s.size() == 2 && s[1] == (is_cross(group) ? 2 : 3) * s[0] &&
         !group.is_model({"gpt_bigcode"});
}

void translate_gpt2(const Group& group, Translation& to) {
  if (is_cross(group)) {
    if (!is_gpt2(group))
      fail("{} is {}: (E, 2E) expected, keys and values", to.source_of("c_attn.weight"),
           to_string(group.shape("c_attn.weight")));
    to.take("W_q", "q_attn.weight"), to.take("b_q", "q_attn.bias");
    const Shape s = group.shape("c_attn.weight"); // (E, 2E): keys, values
    const Tensor W = permuted(to.read("c_attn.weight").reshaped({s[0], 2, s[1] / 2}), {1, 0, 2});
    const Tensor b = to.read("c_attn.bias").reshaped({2, s[1] / 2});
    to.put("W_k", W.at(0), "c_attn.weight"), to.put("W_v", W.at(1), "c_attn.weight");
    to.put("b_k", b.at(0), "c_attn.bias"), to.put("b_v", b.at(1), "c_attn.bias");
  } else {
    to.take("W_qkv", "c_attn.weight"), to.take("b_qkv", "c_attn.bias");
    to.set("qkv_order", "qkv");
  }
  to.take("W_o", "c_proj.weight"), to.take("b_o", "c_proj.bias");
  to.note_square("W_o", "c_proj.weight", "(in, out)", "OI", "nanogpt");
  finish_gpt2(to);
  set_gpt2_scale(to);
}

/// GPT-1 normalises behind each sum; its gelu is the one by tanh.
void settle_gpt1(const Group& group, ModelRecord& record) {
  if (!group.is_model({"openai-gpt"})) return;
  record.tokens = "tokens_embed", record.positions = "positions_embed";
  record.shape = BlockShape::post;
  record.pre_mlp_norm = "ln_1", record.post_block_norm = "ln_2", record.last_norm = "";
  record.activation_keys = group.configured("afn") == "gelu" ? "" : "afn";
}

constexpr ModelRecord of_conv1d() {
  ModelRecord record = gpt2_model("gpt2 openai-gpt");
  record.settle = settle_gpt1;
  record.in_out = true;
  record.always = "attn.c_attn.bias attn.c_proj.bias ln_1.bias ln_2.bias";
  record.mlp_bias = record.norm_bias = Bias::always;
  record.activation_keys = "activation_function";
  record.activation = "gelu_new";
  return record;
}
constexpr ModelRecord gpt2_record = of_conv1d();

} // namespace

void finish_gpt2(Translation& to) {
  const Group& group = to.group();
  to.pass_over({"bias"}, "the causal mask's buffer, not a bias");
  to.pass_over({"masked_bias"}, "what the mask fills in, not a bias");
  to.set_from_config("num_heads", {"n_head", "num_attention_heads"});
  const bool cross = group.within({"crossattention"});
  to.set("causal", cross ? "false" : "true");
  if (group.is_model({"openai-gpt"})) return to.set_post_norm(); // GPT-1: ln_1 is behind the sum
  const std::string norm = group.parent() + (cross ? "ln_cross_attn" : "ln_1");
  to.normalises(NormKind::layer, {norm, group.parent() + "ln1"}, {"layer_norm_epsilon"}, 1e-5);
}

void set_gpt2_scale(Translation& to) {
  const bool scaled = to.is_true({"scale_attn_weights"}, true);
  if (!scaled) to.set("scale", "none", "config.json");
  if (!to.is_true({"scale_attn_by_inverse_layer_idx"})) return;
  const std::optional<std::size_t> layer = to.group().number(), width = to.head_width();
  if (!layer || !width) {
    to.warn(message(
        "config.json says scale_attn_by_inverse_layer_idx, but not which layer this is, or its "
        "heads: "
        "the scale is not divided; <scale> chooses"));
    return;
  }
  const double scale =
      (scaled ? 1 / std::sqrt(static_cast<double>(*width)) : 1) / static_cast<double>(*layer + 1);
  to.set("scale", fmt::format("{}", scale), "config.json: scale_attn_by_inverse_layer_idx");
}

const Family gpt2{"gpt2",         "GPT-2",      "gpt2 openai-gpt decision_transformer",
                  gpt2_needs,     gpt2_knows,   is_gpt2,
                  translate_gpt2, &gpt2_record, nullptr,
                  gpt2_beside};

} // namespace mha::naming
