// Another number and width of heads in the same weights.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

constexpr std::size_t narrowest = 4, widest = 512; // usual widths of heads

/// Another split of a layer's projections into heads.
struct HeadCount {
  std::size_t H, H_kv, width, rope_dims;
};

/// Adapts a scale that is derived from the width of a head.
void rescale(Settings& settings, std::size_t d_k, std::size_t other) {
  if (settings.scale != ScaleKind::number) return;
  const double own = 1 / std::sqrt(static_cast<double>(d_k));
  if (std::abs(settings.scale_value - own) < 1e-9)
    settings.scale_value = 1 / std::sqrt(static_cast<double>(other));
}

/// Whether no tensor of the layer is specific to single heads.
bool may_be_recounted(const Layer& layer) {
  const Dims& d = layer.dims;
  const auto of_width = [](const Tensor& weight, std::size_t width) {
    return weight.empty() ||
           (weight.rank() == 1 && weight.count() == width); // not a weight for each head
  };
  const bool masks_of_heads =
      std::ranges::any_of(layer.added, [](const Broadcast& mask) { return mask.strides[1] != 0; });
  return d.H > 0 && d.d_k == d.d_v && d.d_k > 1 && d.T > 1 && !masks_of_heads &&
         layer.bias.empty() && layer.sinks.empty() && layer.relative_bias.empty() &&
         layer.relative_key.empty() && layer.W_c_kv.empty() && layer.k_past.empty() &&
         layer.k_extra.empty() && layer.kv_heads.empty() && layer.settings.rope_first == 0 &&
         layer.settings.mrope_section[0] == 0 && (layer.q_norm_weight.empty() || d.H > 1) &&
         of_width(layer.q_norm_weight, d.H * d.d_k) &&
         of_width(layer.k_norm_weight, d.H_kv * d.d_k);
}

/// The joined heads under another split; q, k and v have the same memory in both.
Tensor concat_of(const Layer& layer, const HeadCount& count) {
  if (!may_be_recounted(layer)) fail("another change is made for each head by itself");
  Layer other = layer;
  rescale(other.settings, layer.dims.d_k, count.width);
  other.dims.H = count.H, other.dims.H_kv = count.H_kv;
  other.dims.d_k = other.dims.d_v = count.width;
  other.settings.num_heads = count.H, other.settings.num_kv_heads = count.H_kv;
  other.settings.rope_dims = count.rope_dims;
  clear_given(other, {Stage::q_rope, Stage::k_rope, Stage::k_all, Stage::v_all, Stage::scores,
                      Stage::scaled, Stage::capped, Stage::biased, Stage::masked, Stage::row_max,
                      Stage::shifted, Stage::exp, Stage::row_sum, Stage::logsumexp, Stage::weights,
                      Stage::head_out, Stage::head_result, Stage::concat});
  return value_of(other, Stage::concat);
}

/// Splits into other widths that divide both queries and keys evenly.
std::vector<HeadCount> counts_of(const Layer& layer) {
  const Dims& d = layer.dims;
  const std::size_t queries = d.H * d.d_k, keys = d.H_kv * d.d_k, turned = layer.settings.rope_dims;
  std::vector<HeadCount> counts;
  for (std::size_t width = narrowest; width <= std::min(widest, queries); ++width) {
    if (width == d.d_k || queries % width != 0 || keys % width != 0) continue;
    const std::size_t H = queries / width, H_kv = keys / width;
    if (H % H_kv != 0 || (layer.settings.rope != Rope::none && width % 2 != 0)) continue;
    counts.push_back({H, H_kv, width, std::min(turned, width)});
    const std::size_t part = turned * width / d.d_k;
    if (part != turned && part > 0 && part % 2 == 0) counts.push_back({H, H_kv, width, part});
  }
  return counts;
}

std::string in_words(std::size_t H, std::size_t H_kv, std::size_t width) {
  const std::string heads = fmt::format("{} of {}", counted(H, "heads"), width);
  return H == H_kv ? heads : fmt::format("{} on {} of keys and values", heads, H_kv);
}

std::vector<Change> head_count_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (!may_be_recounted(layer)) return {};
  const Dims& d = layer.dims;
  ChangeList list;
  for (const HeadCount& count : counts_of(layer))
    list.add("heads.count", StageSet{Stage::concat},
             fmt::format("splits q, k and v into {}", in_words(count.H, count.H_kv, count.width)) +
                 (count.rope_dims == 0 || count.rope_dims == layer.settings.rope_dims
                      ? ""
                      : fmt::format(", of which {} dimensions are rotated", count.rope_dims)),
             fmt::format("split them into {}", in_words(d.H, d.H_kv, d.d_k)),
             [count](Layer& edited) { give(edited, Stage::concat, concat_of(edited, count)); });
  list.all_rare();
  return list.take();
}

} // namespace

const Theme head_count_theme{"head_count", "heads.count", head_count_changes};

} // namespace mha
