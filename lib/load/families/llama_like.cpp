#include <mha/load/families/llama_like.hpp>

#include <algorithm>

namespace mha::naming {

namespace {

/// config.json's heads; without them, what the width of a head says.
void set_heads(Translation& to) {
  const Group& group = to.group();
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  std::size_t width = static_cast<std::size_t>(to.number({"head_dim"}).value_or(0));
  if (norms_heads(group)) width = norm[0];
  if (to.set_from_config("num_heads", {"num_attention_heads"})) {
    const std::size_t heads = to.count("num_heads").value_or(0);
    if (!norms_heads(group) && width > 0 && heads * width != q[0] && !to.option("num_heads"))
      to.warn(
          fmt::format("config.json says head_dim {}, but {} is {}: the tensor wins, {} heads share "
                      "its {} rows",
                      width, to.source_of("q_proj.weight"), to_string(q), heads, q[0]));
  } else if (width > 0 && q[0] % width == 0) {
    to.set("num_heads", std::to_string(q[0] / width),
           norms_heads(group) ? "q_norm.weight" : "config.json");
  }
  to.set_from_config("num_kv_heads", {"num_key_value_heads"});
}

/// MODULE.norms.0.weight, MODULE.norms.1.weight …: one a head, on top of each other.
void take_stacked_norms(Translation& to, const std::string& canonical, const std::string& module) {
  const Group& group = to.group();
  std::vector<Tensor> norms;
  while (const io::Entry* entry = group.elsewhere(
             fmt::format("{}{}.norms.{}.weight", group.prefix, module, norms.size()))) {
    norms.push_back(entry->read());
    if (norms.back().shape() != norms[0].shape() || norms.back().dtype() != norms[0].dtype())
      fail("{}: {} is {} of {}, the head before it {} of {}", group.contents->name, entry->name,
           to_string(norms.back().shape()), name_of(norms.back().dtype()),
           to_string(norms[0].shape()), name_of(norms[0].dtype()));
  }
  Tensor stacked(norms[0].dtype(), {norms.size(), norms[0].count()});
  for (std::size_t head = 0; head < norms.size(); ++head)
    std::copy_n(norms[head].raw(), norms[head].bytes(),
                stacked.raw_mutable() + head * norms[head].bytes());
  const std::string first = module + ".norms.0.weight";
  to.put(canonical, std::move(stacked), first);
}

} // namespace

void take_qk_norm(Translation& to, bool layer) {
  const Group& group = to.group();
  bool there = false;
  for (const std::string letter : {"q", "k"})
    for (const std::string kind : {"norm", "layernorm"}) {
      const std::string module = fmt::format("{}_{}", letter, kind), weight = module + ".weight";
      const std::string canonical = letter + "_norm.weight";
      const bool one_a_head = group.has(module + ".norms.0.weight");
      if (!group.has(weight) && !one_a_head) continue;
      there = true, layer = layer || kind == "layernorm" || group.has(module + ".bias");
      if (one_a_head)
        take_stacked_norms(to, canonical, module);
      else
        to.take(canonical, weight);
      to.take(letter + "_norm.bias", module + ".bias");
    }
  if (!there) return;
  if (!layer) {
    to.set_from_config("qk_norm_eps", {"rms_norm_eps"});
    return;
  }
  to.set("qk_norm", "layer");
  if (!to.set_from_config("qk_norm_eps", {"layer_norm_eps"})) to.set("qk_norm_eps", "1e-05");
}

bool norms_heads(const Group& group) {
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  return norm.size() == 1 && q.size() == 2 && norm[0] > 0 && norm[0] != q[0];
}

void take_llama(Translation& to) {
  const Group& group = to.group();
  to.take_projections("q_proj", "k_proj", "v_proj", "o_proj");
  if (to.is_true({"attention_bias"}) && !group.has("q_proj.bias"))
    fail("{}: {}q_proj.bias is missing, though config.json says attention_bias",
         group.contents->name, group.prefix);
  set_heads(to);
  to.set("causal", "true");
  to.set_from_config("scale", {"attention_multiplier"});
  to.set_from_config("clip_qkv", {"clip_qkv"});
  take_qk_norm(to);
  const std::string norm = group.parent() + "input_layernorm";
  to.normalises(group.elsewhere(norm + ".bias") ? NormKind::layer : NormKind::rms, {norm},
                {"rms_norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"}, 1e-6);
}

} // namespace mha::naming
