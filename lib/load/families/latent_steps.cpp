// Multi-head latent attention: which part of a head rotates, and its scale.

#include <mha/load/families/positions.hpp>
#include <mha/load/families/step_functions.hpp>

#include <cmath>

namespace mha::naming {

namespace {

/// The width of a head without the shared part, and of that, as far as something says them.
struct HeadWidths {
  std::optional<double> alone, shared;
};
HeadWidths widths_of_head(const Group& group, const LayerReading& to) {
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
void set_scale(LayerReading& to, const HeadWidths& head) {
  const std::optional<double> mscale = rope_number(to, "mscale_all_dim"),
                              factor = rope_number(to, "factor");
  if (mscale.value_or(0) == 0 || factor.value_or(1) <= 1 || !head.alone || !head.shared) return;
  const double g = 0.1 * *mscale * std::log(*factor) + 1;
  to.set("scale", fmt::format("{}", g * g / std::sqrt(*head.alone + *head.shared)),
         "config.json: mscale_all_dim");
}

} // namespace

/// The last qk_rope_head_dim dimensions of a head rotate, in neighbours unless rope_interleave is
/// false.
void step_latent_heads(LayerReading& to, const JsonTree&) {
  const HeadWidths head = widths_of_head(to.group(), to);
  set_rotary(to, {.style = to.is_true({"rope_interleave"}, true) ? "interleaved" : "half"});
  if (head.shared) to.set("rope_dims", fmt::format("{}", *head.shared));
  if (head.alone) to.set("rope_first", fmt::format("{}", *head.alone));
  set_scale(to, head);
}

} // namespace mha::naming
