// minGPT's first version: blocks.N.attn.query, key, value, proj, (out, in).

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_mingpt(const Group& group, Translation& to) {
  to.take_projections("query", "key", "value", "proj");
  to.pass_over({"mask"}, "the causal mask's buffer");
  to.set_from_config("num_heads", {"n_head", "num_attention_heads"});
  to.set("causal", "true");
  to.normalises(NormKind::layer, {group.parent() + "ln1"}, {"layer_norm_epsilon"}, 1e-5);
}

} // namespace

const Family mingpt{"mingpt",
                    "minGPT",
                    "mingpt",
                    "query.weight key.weight value.weight proj.weight",
                    "query.bias key.bias value.bias proj.bias mask",
                    nullptr,
                    translate_mingpt,
                    nullptr,
                    nullptr,
                    "ln1 ln2 mlp"};

} // namespace mha::naming
