// T5: SelfAttention.{q,k,v,o} and EncDecAttention.{q,k,v,o}, (out, in), no biases; H · d_kv need
// not be the model's width. The scores are not scaled; a bias by buckets of distance, held by block
// 0 alone and used by every block, is added in self-attention.

#include <mha/load/families/namings.hpp>

#include <algorithm>
#include <iterator>

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

/// The table has a row a bucket.
void require_buckets(const Group& group, const Translation& to) {
  const auto said = group.configured_count({"relative_attention_num_buckets"}, 1);
  const auto bias = to.parts.find("relative_bias");
  if (!said || bias == to.parts.end() || bias->second.tensor.rank() != 2) return;
  if (const std::size_t rows = bias->second.tensor.shape()[0]; rows != *said)
    fail("{}: config.json says relative_attention_num_buckets {}, but {} has {}",
         group.contents->name, *said, table, counted(rows, "rows"));
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
    require_buckets(group, to);
    to.set("relative_bidirectional", decoder ? "false" : "true");
    to.set_from_config("relative_max_distance", {"relative_attention_max_distance"});
  }
  // The decoder's, which no number of a layer comes from.
  group.flag({"is_encoder_decoder"}), group.configured("num_decoder_layers");
  to.normalises(NormKind::rms, {group.parent() + "layer_norm"}, {"layer_norm_epsilon"}, 1e-6);
}

/// "gated-gelu" is two factors, one through gelu_new.
void settle_t5(const Group& group, ModelRecord& record) {
  if (group.beside("layer.1.DenseReluDense.wi_0.weight", 3)) {
    record.mlp_in = "layer.1.DenseReluDense.wi_0";
    record.mlp_up = "layer.1.DenseReluDense.wi_1";
  }
  const std::string kind = group.configured("feed_forward_proj").value_or("");
  const bool gated = kind.starts_with("gated-"), has_gate = !record.mlp_up.empty();
  const bool is_there = has_gate || group.beside("layer.1.DenseReluDense.wi.weight", 3);
  if (!kind.empty() && is_there && gated != has_gate)
    fail("{}: config.json says feed_forward_proj {}, but the feed-forward has {}",
         group.contents->name, kind, has_gate ? "wi_0 and wi_1" : "wi alone");
  const std::string act = kind.substr(gated ? 6 : 0);
  constexpr std::string_view known[]{"relu", "silu", "gelu_new", "gelu"};
  if (act.empty()) {
    if (has_gate) record.activation = "gelu_new";
    return;
  }
  const auto at = std::ranges::find(known, act);
  if (at == std::end(known))
    fail("{}: config.json says feed_forward_proj {}: relu, gated-gelu or gated-silu expected",
         group.contents->name, kind);
  record.activation = gated && act == "gelu" ? "gelu_new" : *at;
}

/// The encoder; a decoder reads what the encoder computes.
constexpr ModelRecord t5_record{
    .models = "t5 mt5 umt5",
    .layers = "block",
    .not_in_all = "layer.0.SelfAttention.relative_attention_bias.weight",
    .beside = "shared lm_head",
    .tokens = "embed_tokens",
    .shared_tokens = "shared",
    .norm = InputNorm::rms,
    .eps_keys = "layer_norm_epsilon",
    .eps = 1e-6,
    .pre_mlp_norm = "layer.1.layer_norm",
    .mlp_in = "layer.1.DenseReluDense.wi",
    .mlp_out = "layer.1.DenseReluDense.wo",
    .mlp_bias = Bias::never,
    .activation = "relu",
    .last_norm = "final_layer_norm",
    .causal = false,
    .settle = settle_t5,
};

} // namespace

const Family t5{"t5",
                "T5",
                "t5 mt5 umt5 switch_transformers",
                "q.weight k.weight v.weight o.weight",
                "relative_attention_bias.weight",
                is_t5,
                translate_t5,
                &t5_record,
                nullptr,
                "layer.0 layer.1 layer.2"};

} // namespace mha::naming
