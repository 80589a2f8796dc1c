// T5: a bias by buckets of distance, which only block 0 has and every block uses, and the
// feed-forward.

#include <mha/load/families/positions.hpp>
#include <mha/load/families/steps.hpp>

#include <algorithm>
#include <iterator>

namespace mha::naming {

namespace {

constexpr std::string_view table = "relative_attention_bias.weight";

/// "decoder.block.7.layer.0.SelfAttention." with block 0 instead.
std::string in_first_block(const std::string& prefix) {
  const std::size_t at = prefix.find("block.");
  if (at == std::string::npos) return prefix;
  const std::size_t number = at + 6, end = prefix.find('.', number);
  return prefix.substr(0, number) + "0" + prefix.substr(std::min(end, prefix.size()));
}

/// Throws Error unless the table has a row for each bucket.
void require_buckets(const Group& group, const LayerReading& to) {
  const auto buckets = group.configured_count({"relative_attention_num_buckets"}, 1);
  const auto bias = to.parts.find("relative_bias");
  if (!buckets || bias == to.parts.end() || bias->second.tensor.rank() != 2) return;
  if (const std::size_t rows = bias->second.tensor.shape()[0]; rows != *buckets)
    fail("{}: config.json has relative_attention_num_buckets {}, but {} has {}",
         group.contents->name, *buckets, table, counted(rows, "rows"));
}

} // namespace

void step_t5_bias(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  const std::string shared = in_first_block(group.prefix) + std::string(table);
  to.take("relative_bias", table);
  if (!group.has(table)) to.take_elsewhere("relative_bias", shared);
  if (const auto bias = to.parts.find("relative_bias"); bias == to.parts.end())
    to.warn(fmt::format("there is no {}: no relative position bias is added", shared));
  else if (!to.count("num_heads") && bias->second.tensor.rank() == 2)
    to.set("num_heads", std::to_string(bias->second.tensor.shape()[1]), std::string(table));
  require_buckets(group, to);
  to.set("relative_bidirectional", group.within({"decoder."}) ? "false" : "true");
  to.set_from_config("relative_max_distance", {"relative_attention_max_distance"});
}

/// "gated-gelu" multiplies two factors, one of them after gelu_new.
void settle_t5_feed_forward(const Group& group, Description& description, const JsonTree&) {
  const std::string kind = group.configured("feed_forward_proj").value_or("");
  const bool gated = kind.starts_with("gated-"), has_gate = description.tensors.contains("mlp.up");
  const bool has_input = has_gate || group.beside("layer.1.DenseReluDense.wi.weight", 3);
  if (!kind.empty() && has_input && gated != has_gate)
    fail("{}: config.json has feed_forward_proj {}, but the feed-forward has {}",
         group.contents->name, kind, has_gate ? "wi_0 and wi_1" : "wi alone");
  const std::string act = kind.substr(gated ? 6 : 0);
  constexpr std::string_view known[]{"relu", "silu", "gelu_new", "gelu"};
  if (act.empty()) {
    if (has_gate) description.activation.constant = "gelu_new";
    return;
  }
  const auto at = std::ranges::find(known, act);
  if (at == std::end(known))
    fail("{}: config.json has feed_forward_proj {}: relu, gated-gelu or gated-silu expected",
         group.contents->name, kind);
  description.activation.constant = gated && act == "gelu" ? "gelu_new" : *at;
}

} // namespace mha::naming
