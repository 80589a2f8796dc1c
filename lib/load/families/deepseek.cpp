// DeepSeek V2 and V3, Kimi K2: multi-head latent attention. q_a_proj, q_a_layernorm, q_b_proj (or
// q_proj), kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj, o_proj, all (out, in). The last
// qk_rope_head_dim dimensions of a head rotate, in pairs (2i, 2i + 1).

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

#include <cmath>

namespace mha::naming {

namespace {

/// The width of a head, of it without the shared part, and of that, as far as something says them.
struct HeadWidths {
  std::optional<double> alone, shared;
};
HeadWidths widths_of_head(const Group& group, const Translation& to) {
  HeadWidths parts{to.number({"qk_nope_head_dim"}), to.number({"qk_rope_head_dim"})};
  const Shape down = group.shape("kv_a_proj_with_mqa.weight"),
              norm = group.shape("kv_a_layernorm.weight");
  if (!parts.shared && down.size() == 2 && norm.size() == 1 && norm[0] < down[0])
    parts.shared = static_cast<double>(down[0] - norm[0]);
  const std::optional<std::size_t> width = to.head_width();
  if (!parts.alone && parts.shared && width)
    parts.alone = static_cast<double>(*width) - *parts.shared;
  return parts;
}

/// 1/√d_k · g², g = 0.1 mscale_all_dim ln factor + 1 where rope_scaling has both.
void set_deepseek_scale(Translation& to, const HeadWidths& head) {
  const std::optional<double> mscale = rope_number(to, "mscale_all_dim"),
                              factor = rope_number(to, "factor");
  if (mscale.value_or(0) == 0 || factor.value_or(1) <= 1 || !head.alone || !head.shared) return;
  const double g = 0.1 * *mscale * std::log(*factor) + 1;
  to.set("scale", fmt::format("{}", g * g / std::sqrt(*head.alone + *head.shared)),
         "config.json: mscale_all_dim");
}

void translate_deepseek(const Group& group, Translation& to) {
  to.take_linear("W_q", group.has("q_b_proj.weight") ? "q_b_proj.weight" : "q_proj.weight");
  to.take_linear("W_q_a", "q_a_proj.weight"), to.take("b_q_a", "q_a_proj.bias");
  to.take("q_a_norm.weight", "q_a_layernorm.weight");
  to.take_linear("W_kv_a", "kv_a_proj_with_mqa.weight");
  to.take("b_kv_a", "kv_a_proj_with_mqa.bias");
  to.take("kv_a_norm.weight", "kv_a_layernorm.weight");
  to.take_linear("W_kv_b", "kv_b_proj.weight"), to.take_output("o_proj");
  to.set_from_config("num_heads", {"num_attention_heads"});
  to.set("causal", "true");
  const HeadWidths head = widths_of_head(group, to);
  set_rotary(to, {.style = to.is_true({"rope_interleave"}, true) ? "interleaved" : "half"});
  if (head.shared) to.set("rope_dims", fmt::format("{}", *head.shared));
  if (head.alone) to.set("rope_first", fmt::format("{}", *head.alone));
  set_deepseek_scale(to, head);
  // Of a GGUF file, all norms have the same epsilon; elsewhere the latent ones have no key.
  if (group.contents->format == "gguf") to.set_from_config("qk_norm_eps", {"rms_norm_eps"});
  to.normalises(NormKind::rms, {group.parent() + "input_layernorm"}, {"rms_norm_eps"}, 1e-6);
}

} // namespace

const Family deepseek{"deepseek",
                      "DeepSeek",
                      "deepseek_v2 deepseek_v3 kimi_k2",
                      "kv_a_proj_with_mqa.weight kv_b_proj.weight",
                      "q_proj.weight q_a_proj.weight q_a_proj.bias q_a_layernorm.weight "
                      "q_b_proj.weight kv_a_proj_with_mqa.bias kv_a_layernorm.weight o_proj.weight "
                      "o_proj.bias",
                      nullptr,
                      translate_deepseek,
                      nullptr,
                      nullptr,
                      "post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.down_proj"};

} // namespace mha::naming
