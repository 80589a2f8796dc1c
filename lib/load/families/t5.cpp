// T5: SelfAttention.{q,k,v,o} and EncDecAttention.{q,k,v,o}, (out, in), no biases; H · d_kv need
// not be the model's width. The scores are not scaled; a bias by buckets of distance, held by block
// 0 alone and used by every block, is added in self-attention.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_t5(const Group& group) {
  return group.within({"SelfAttention.", "EncDecAttention."});
}

constexpr std::string_view table = "relative_attention_bias.weight";

/// "decoder.block.7.layer.0.SelfAttention." as of block 0.
std::string in_first_block(const std::string& prefix) {
  const std::size_t at = prefix.find("block.");
  if (at == std::string::npos) return prefix;
  const std::size_t number = at + 6, end = prefix.find('.', number);
  return prefix.substr(0, number) + "0" + prefix.substr(std::min(end, prefix.size()));
}

void translate_t5(const Group& group, Translation& to) {
  to.take_projections("q", "k", "v", "o");
  const bool cross = group.within({"EncDecAttention."});
  const bool decoder = group.within({"decoder."});
  to.set_from_config("num_heads", {"num_heads", "num_attention_heads"});
  to.set("scale", "none");
  to.set("causal", decoder && !cross ? "true" : "false");
  if (cross) {
    to.note("cross-attention: X_kv is the encoder's output");
  } else {
    const std::string shared = in_first_block(group.prefix) + std::string(table);
    to.take("relative_bias", table);
    if (!group.has(table)) to.take_elsewhere("relative_bias", shared);
    if (const auto bias = to.parts.find("relative_bias"); bias == to.parts.end())
      to.warn(fmt::format("there is no {}: no relative position bias is added", shared));
    else if (!to.count("num_heads") && bias->second.tensor.rank() == 2)
      to.set("num_heads", std::to_string(bias->second.tensor.shape()[1]), std::string(table));
    to.set("relative_bidirectional", decoder ? "false" : "true");
    to.set_from_config("relative_max_distance", {"relative_attention_max_distance"});
  }
  to.normalises(NormKind::rms, {group.parent() + "layer_norm"}, {"layer_norm_epsilon"}, 1e-6);
}

} // namespace

const Family t5{
    "t5",  "T5",        "q.weight k.weight v.weight o.weight", "relative_attention_bias.weight",
    is_t5, translate_t5};

} // namespace mha::naming
