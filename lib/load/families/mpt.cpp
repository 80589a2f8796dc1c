// MPT: attn.Wqkv (out, in), the rows of all queries, all keys, all values, and ALiBi with slopes in
// an order of its own.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_mpt(const Group& group, Translation& to) {
  // llm-foundry clips first and normalises then, all heads together.
  if (const auto clip = group.configured("attn_config.clip_qkv"); clip && group.has("q_ln.weight"))
    fail("{}: clip_qkv {} before the layer normalisation of queries and keys (q_ln) is not "
         "supported; with the model's own q and k of this layer, start from these: <q=FILE> "
         "<k=FILE>",
         group.contents->name, *clip);
  to.set_from_config("clip_qkv", {"attn_config.clip_qkv"});
  for (const std::string letter : {"q", "k"}) {
    to.take(letter + "_norm.weight", letter + "_ln.weight");
    to.take(letter + "_norm.bias", letter + "_ln.bias");
  }
  if (group.has("q_ln.weight")) {
    to.set("qk_norm", "layer");
    // Of a GGUF file, all norms have the same epsilon; elsewhere theirs has no key.
    if (group.contents->format != "gguf" ||
        !to.set_from_config("qk_norm_eps", {"layer_norm_epsilon"}))
      to.set("qk_norm_eps", "1e-05");
  }
  if (const auto slope = to.number({"attn_config.alibi_bias_max"}); slope && *slope != 8)
    fail("{}: alibi_bias_max {} is not supported: 8 is", group.contents->name, *slope);
  to.take_fused("Wqkv", "qkv"), to.take_output("out_proj");
  to.set_from_config("num_heads", {"n_heads", "num_attention_heads"});
  if (!to.set_from_config("num_kv_heads", {"attn_config.kv_n_heads"}) &&
      group.configured("attn_config.attn_type") == "multiquery_attention")
    to.set("num_kv_heads", "1", "config.json");
  to.set_from_config("scale", {"attn_config.softmax_scale"});
  to.set("causal", "true");
  if (to.is_true({"attn_config.alibi"}, true))
    to.set("alibi", "mpt", group.configured("attn_config.alibi") ? "config.json" : "");
  to.normalises(NormKind::layer, {group.parent() + "norm_1"}, {"layer_norm_epsilon"}, 1e-5);
}

/// llama.cpp adds learned positions wherever the file has them; Transformers' MPT has none.
void settle_mpt(const Group& group, ModelRecord& record) {
  if (group.contents->format == "gguf" && group.elsewhere("transformer.wpe.weight"))
    record.positions = "wpe";
}

constexpr ModelRecord mpt_record{
    .models = "mpt",
    .layers = "blocks",
    .tokens = "wte",
    .eps_keys = "layer_norm_epsilon",
    .norm_bias = Bias::if_there,
    .pre_mlp_norm = "norm_2",
    .mlp_in = "ffn.up_proj",
    .mlp_out = "ffn.down_proj",
    .activation = "gelu",
    .mlp_returns = Stage::resid_post,
    .last_norm = "norm_f",
    .head = "lm_head",
    .tied = true,
    .settle = settle_mpt,
};

} // namespace

const Family mpt{"mpt",
                 "MPT",
                 mpt_record.models,
                 "Wqkv.weight out_proj.weight",
                 "Wqkv.bias out_proj.bias q_ln.weight k_ln.weight q_ln.bias k_ln.bias",
                 nullptr,
                 translate_mpt,
                 &mpt_record};

} // namespace mha::naming
