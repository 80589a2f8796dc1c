// BLOOM: self_attention.query_key_value (out, in), each head's query, key and value rows together,
// and ALiBi, written as slope · key position.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

// Falcon has the same names; BLOOM always has biases.
bool is_bloom(const Group& group) {
  if (group.configured("model_type")) return group.is_model({"bloom"});
  return group.has("query_key_value.bias") && group.within({"self_attention."});
}

void translate_bloom(const Group& group, Translation& to) {
  if (!group.configured("model_type"))
    to.warn("query_key_value and dense with biases: taken as BLOOM; Falcon has the same names, "
            "--naming falcon");
  to.take_fused("query_key_value", "per_group"), to.take_output("dense");
  to.set_from_config("num_heads", {"n_head", "num_attention_heads"});
  to.set("causal", "true");
  to.set("alibi", "bloom");
  to.normalises(NormKind::layer, {group.parent() + "input_layernorm"}, {"layer_norm_epsilon"},
                1e-5);
}

} // namespace

const Family bloom{"bloom",
                   "BLOOM",
                   "query_key_value.weight dense.weight",
                   "query_key_value.bias dense.bias",
                   is_bloom,
                   translate_bloom};

} // namespace mha::naming
