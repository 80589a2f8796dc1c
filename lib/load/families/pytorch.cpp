// PyTorch's nn.MultiheadAttention: in_proj_weight (3E, E) by rows q, k, v; or q_proj_weight,
// k_proj_weight, v_proj_weight where keys and values have widths of their own; always one
// in_proj_bias. CLIP's own checkpoints have it in their resblocks.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

/// A third of in_proj_weight (out, in) or in_proj_bias, by rows.
Tensor third(const Tensor& fused, std::size_t rank, std::size_t which, const std::string& where) {
  Shape shape = fused.shape();
  if (shape.size() != rank || shape[0] % 3 != 0)
    fail("{} is {}: a multiple of 3 rows expected: queries, keys, values", where, to_string(shape));
  shape[0] /= 3;
  Shape thirds = shape;
  thirds.insert(thirds.begin(), 3);
  return fused.reshaped(thirds).at(which);
}

/// CLIP normalises by ln_1 first, and masks the future in its text tower.
void set_clip(const Group& group, Translation& to) {
  if (!group.within({"resblocks."})) return;
  if (!group.within({"visual."})) {
    to.set("causal", "true", "CLIP's text tower");
    to.warn(message("resblocks outside of visual: CLIP's text tower, causal; <causal false> "
                    "chooses otherwise"));
  }
  to.normalises(NormKind::layer, {group.parent() + "ln_1"}, {}, 1e-5);
}

void translate_pytorch(const Group& group, Translation& to) {
  std::size_t which = 0;
  for (const char* letter : {"q", "k", "v"}) {
    const std::string W = fmt::format("W_{}", letter), b = fmt::format("b_{}", letter);
    if (group.has("in_proj_weight"))
      to.put(W,
             transposed_when_read(
                 third(to.read("in_proj_weight"), 2, which, to.source_of("in_proj_weight"))),
             "in_proj_weight");
    else
      to.take_linear(W, fmt::format("{}_proj_weight", letter));
    if (group.has("in_proj_bias"))
      to.put(b, third(to.read("in_proj_bias"), 1, which, to.source_of("in_proj_bias")),
             "in_proj_bias");
    ++which;
  }
  to.take_output("out_proj");
  // (1, 1, E): one learned key and value at the end.
  to.take("k_extra", "bias_k"), to.take("v_extra", "bias_v");
  for (const char* extra : {"k_extra", "v_extra"})
    if (const auto part = to.parts.find(extra); part != to.parts.end())
      part->second.tensor = part->second.tensor.reshaped({part->second.tensor.count()});
  // A pickled module says its own.
  if (const auto own = group.config->find(group.prefix + "num_heads"); own != group.config->end())
    to.set("num_heads", own->second, fmt::format("{}num_heads", group.prefix));
  else
    to.set_from_config("num_heads", {"num_heads", "nhead", "num_attention_heads"});
  set_clip(group, to);
}

} // namespace

const Family pytorch{
    "pytorch",
    "PyTorch MultiheadAttention",
    "siglip siglip_vision_model siglip2 siglip2_vision_model",
    "in_proj_weight|q_proj_weight",
    "in_proj_bias k_proj_weight v_proj_weight bias_k bias_v out_proj.weight out_proj.bias",
    nullptr,
    translate_pytorch};

} // namespace mha::naming
