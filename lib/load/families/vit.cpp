// ViT, DeiT and DINOv2 as Hugging Face has them: attention.attention.{query,key,value},
// attention.output.dense, (out, in).

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

/// The projections stand in a module of the layer: right in it, output.dense is a feed-forward's,
/// as SqueezeBERT has it.
bool is_vit(const Group& group) {
  const std::size_t dot = group.prefix.size();
  return dot < 2 || group.prefix[dot - 2] < '0' || group.prefix[dot - 2] > '9';
}

void translate_vit(const Group& group, Translation& to) {
  to.refuse({"attention.relative_position_bias.relative_position_bias_table"},
            "a learned relative position");
  to.take_projections("attention.query", "attention.key", "attention.value", "output.dense");
  to.set_from_config("num_heads", {group.within({"decoder_layers."}) // ViT-MAE's decoder
                                       ? "decoder_num_attention_heads"
                                       : "num_attention_heads"});
  to.normalises(NormKind::layer, {group.parent() + "layernorm_before", group.parent() + "norm1"},
                {"layer_norm_eps"}, group.is_model({"dinov2", "vit_msn"}) ? 1e-6 : 1e-12);
}

} // namespace

const Family vit{
    "vit",
    "ViT",
    "vit deit dinov2 dinov2_with_registers vit_mae vit_msn ijepa yolos",
    "attention.query.weight attention.key.weight attention.value.weight output.dense.weight",
    "attention.query.bias attention.key.bias attention.value.bias output.dense.bias "
    "attention.relative_position_bias.relative_position_bias_table",
    is_vit,
    translate_vit,
    nullptr,
    nullptr,
    "layernorm_before layernorm_after intermediate.dense output.dense norm1 norm2 mlp layer_scale1 "
    "layer_scale2"};

} // namespace mha::naming
