#include <mha/load/families/llama_like.hpp>

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

} // namespace

bool norms_heads(const Group& group) {
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  return norm.size() == 1 && q.size() == 2 && norm[0] > 0 && norm[0] != q[0];
}

void take_llama(Translation& to) {
  const Group& group = to.group();
  to.refuse({"q_norm.bias", "q_layernorm.weight", "q_layernorm.norms.0.weight"},
            "layer normalisation of queries and keys");
  if (const auto clip = group.configured("clip_qkv"))
    fail("{}: clip_qkv {} is not supported", group.contents->name, *clip);
  to.take_projections("q_proj", "k_proj", "v_proj", "o_proj");
  set_heads(to);
  to.set("causal", "true");
  to.set_from_config("scale", {"attention_multiplier"});
  if (group.has("q_norm.weight")) {
    to.take("q_norm.weight", "q_norm.weight"), to.take("k_norm.weight", "k_norm.weight");
    to.set_from_config("qk_norm_eps", {"rms_norm_eps"});
  }
  const std::string norm = group.parent() + "input_layernorm";
  to.normalises(group.elsewhere(norm + ".bias") ? NormKind::layer : NormKind::rms, {norm},
                {"rms_norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"}, 1e-6);
}

} // namespace mha::naming
