// timm's vision transformers: blocks.N.attn.qkv and proj, (out, in).

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

/// timm's name of the model: others of its models have these names, too, and rotate queries and
/// keys, or attend in windows, over channels, or with further parts.
void require_plain_attention(const Group& group) {
  const std::optional<std::string> name = group.configured("architecture");
  if (!name) return;
  bool plain = name->starts_with("vit_") || name->starts_with("deit");
  for (const std::string_view other : {"rope", "dinov3", "_pe_", "relpos", "parallel"})
    plain = plain && name->find(other) == std::string::npos;
  if (!plain)
    fail("{}: config.json says architecture '{}': of timm's models, vision transformers (vit_…, "
         "deit…) without a rotation or relative positions are computed; a description says how "
         "another one is: <naming> FILE.json",
         group.contents->name, *name);
}

void translate_timm(const Group& group, Translation& to) {
  require_plain_attention(group);
  if (group.beside("merger.ln_q.weight", 3))
    fail("{}: {} is of Qwen2-VL's vision tower, which rotates queries and keys: not supported",
         group.contents->name, group.prefix);
  to.refuse({"q_norm.weight"}, "normalisation of queries and keys in timm's files");
  to.refuse({"q_bias"}, "a bias of queries and values alone (BEiT, EVA)");
  to.refuse({"relative_position_bias_table"}, "a learned relative position");
  to.take_fused("qkv", "qkv"), to.take_output("proj");
  to.set_from_config("num_heads", {"num_heads", "num_attention_heads"});
  to.normalises(NormKind::layer, {group.parent() + "norm1"}, {"layer_norm_eps"}, 1e-6);
}

} // namespace

const Family timm{"timm",
                  "timm",
                  "timm_wrapper",
                  "qkv.weight proj.weight",
                  "qkv.bias proj.bias q_norm.weight q_bias relative_position_bias_table",
                  nullptr,
                  translate_timm,
                  nullptr,
                  nullptr,
                  "norm1 norm2 mlp ls1 ls2"};

} // namespace mha::naming
