// The steps of a graph that depend on positions: rotary embeddings, masks, biases.

#include <mha/formats/onnx_layers.hpp>

#include <mha/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

/// Masks are written as −10000, as the least number of their type, or as −∞.
constexpr double masked_below = -1000;
constexpr std::int64_t few_rows = 64; ///< of longer ones some rows are looked at

struct Visible {
  bool irregular = false, varies = false;
  bool causal = true;
  std::int64_t left = -1, right = -1;
};

} // namespace

Entry onnx_entry(std::string name, const std::vector<double>& numbers, DType dtype) {
  Entry entry;
  entry.name = std::move(name);
  entry.dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  entry.shape = {numbers.size()};
  entry.read = [numbers, dtype = entry.dtype] {
    return convert(Tensor::of<double>({numbers.size()}, numbers), dtype);
  };
  return entry;
}

void add_onnx_rope(const OnnxRope& rope, bool wide, OnnxLayer& layer) {
  const auto set = [&](const char* name, std::string value) {
    layer.settings.emplace_back(name, std::move(value));
  };
  set("rope", rope.neighbours ? "interleaved" : "half");
  set("rope_dims", std::to_string(rope.dims));
  if (rope.first > 0) set("rope_first", std::to_string(rope.first));
  const std::vector<double>& turns = rope.frequencies;
  const auto dims = static_cast<double>(rope.dims);
  // Tables of float32 turn as their base says, to its rounding; in float64 that would show.
  const double rounding = wide ? 1e-13 : 1e-5;
  const auto exact = [&](double base) {
    for (std::size_t j = 0; j < turns.size(); ++j) {
      const double expected = std::pow(base, -2 * static_cast<double>(j) / dims);
      if (std::abs(turns[j] - expected) > rounding * expected) return false;
    }
    return true;
  };
  double base = 10000;
  if (turns.size() > 1) {
    const std::size_t last = turns.size() - 1;
    base = std::pow(turns[last] / turns[0], -dims / (2 * static_cast<double>(last)));
    const double whole = std::round(base);
    if (whole > 1 && std::abs(base - whole) < 1e-3 * whole && exact(whole)) base = whole;
  }
  if (rope.amplitude != 1) set("rope_attention_factor", number_text(rope.amplitude));
  if (exact(base)) {
    set("rope_base", number_text(base));
    return;
  }
  // Linear scaling turns every pair slower by one factor; others are told pair by pair.
  const double slower = 1 / turns[0];
  bool linear = slower > 0 && std::isfinite(slower);
  for (std::size_t j = 0; j < turns.size() && linear; ++j) {
    const double expected = turns[0] * std::pow(base, -2 * static_cast<double>(j) / dims);
    linear = std::abs(turns[j] - expected) <= rounding * expected;
  }
  if (linear) {
    set("rope_base", number_text(base));
    set("rope_scaling", "linear"), set("rope_factor", number_text(slower));
    return;
  }
  base = 10000;
  std::vector<double> factors;
  for (std::size_t j = 0; j < turns.size(); ++j)
    factors.push_back(std::pow(base, -2 * static_cast<double>(j) / dims) / turns[j]);
  set("rope_base", number_text(base)), set("rope_scaling", "longrope");
  set("rope_original_length", "1000000000");
  if (rope.amplitude == 1) set("rope_attention_factor", "1");
  layer.tensors.push_back(onnx_entry("rope_short_factor", factors, DType::f64));
  layer.tensors.push_back(onnx_entry("rope_long_factor", factors, DType::f64));
}

namespace {

/// Which keys the rows of one head see.
std::optional<Visible> visible_keys_of(const OnnxAttentionSite& site, std::int64_t l) {
  Visible seen;
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < site.T; ++t)
    if (site.T <= few_rows || t < 2 || t == site.T / 2 || t + 1 == site.T) rows.push_back(t);
  const std::int64_t behind = site.S - site.T;
  for (const std::int64_t t : rows) {
    std::int64_t first = -1, last = -1;
    std::optional<double> level;
    std::int64_t count = 0;
    for (std::int64_t s = 0; s < site.S; ++s) {
      const auto added = site.added(l, t, s);
      if (!added) return std::nullopt;
      if (*added < masked_below) continue;
      if (first < 0) first = s;
      last = s, ++count;
      if (!level) level = added;
      seen.varies |= std::abs(*added - *level) > 1e-6 * (1 + std::abs(*level));
    }
    if (count == 0 || count != last - first + 1) {
      seen.irregular = true;
      continue;
    }
    const std::int64_t own = t + behind;
    seen.causal &= last == std::min(own, site.S - 1);
    if (first > 0) seen.left = std::max(seen.left, own - first);
    if (last + 1 < site.S) seen.right = std::max(seen.right, last - own);
  }
  // Each row has to be as the window says.
  for (const std::int64_t t : rows) {
    const std::int64_t own = t + behind;
    for (std::int64_t s = 0; s < site.S && !seen.irregular; ++s) {
      const bool visible =
          (seen.left < 0 || s >= own - seen.left) && (seen.right < 0 || s <= own + seen.right);
      seen.irregular |= visible != (site.added(l, t, s).value_or(0) >= masked_below);
    }
  }
  return seen;
}

/// Whether head h's bias is slope · (key − query), as in the paper of ALiBi.
bool is_alibi(const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads) {
  const std::size_t H = heads.size();
  if (H == 0 || (H & (H - 1)) != 0 || site.S < 3) return false;
  for (std::size_t h = 0; h < H; ++h) {
    const double slope = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(H));
    const std::int64_t t = site.T - 1;
    const auto own = site.added(heads[h], t, t);
    for (std::int64_t s = 0; s <= t; ++s) {
      const auto added = site.added(heads[h], t, s);
      const double expected = slope * static_cast<double>(s - t);
      if (!own || !added || std::abs(*added - *own - expected) > 1e-4 * (1 + std::abs(expected)))
        return false;
    }
  }
  return true;
}

/// The fixed tensor that is added, as (heads or 1, T, S).
void add_bias_tensor(const std::shared_ptr<const OnnxFlow>& flow, const OnnxAttentionSite& site,
                     OnnxLayer& layer) {
  const auto& axes = flow->shape(site.added_value);
  const bool fits = axes && axes->size() >= 2 && axes->back() == site.S &&
                    (axes->end()[-2] == site.T || axes->end()[-2] == 1);
  const bool whole =
      fits &&
      (axes->size() == 2 || onnx_count(*axes) == axes->end()[-3] * axes->end()[-2] * axes->back());
  if (!whole || !flow->has_tensor(site.added_value)) {
    layer.remarks.emplace_back(
        message("a bias that follows from positions is added to the scores: give "
                "<bias=FILE>, with (H, T, S) numbers for your T and S"));
    return;
  }
  Entry entry;
  entry.name = "bias";
  entry.dtype = onnx_weight_dtype(*flow, site.added_value);
  if (entry.dtype == DType::boolean) entry.name = "mask";
  const std::size_t heads = axes->size() == 2 ? 1 : static_cast<std::size_t>(axes->end()[-3]);
  entry.shape = {heads, static_cast<std::size_t>(axes->end()[-2]),
                 static_cast<std::size_t>(axes->back())};
  entry.read = [flow, value = site.added_value, shape = entry.shape] {
    return flow->tensor(value).reshaped(shape);
  };
  layer.tensors.push_back(std::move(entry));
}

} // namespace

void add_onnx_mask(const std::shared_ptr<const OnnxFlow>& flow, const OnnxAttentionSite& site,
                   const std::vector<std::int64_t>& heads, OnnxLayer& layer) {
  const auto set = [&](const char* name, std::string value) {
    layer.settings.emplace_back(name, std::move(value));
  };
  layer.remarks.insert(layer.remarks.end(), site.remarks.begin(), site.remarks.end());
  bool causal = site.causal;
  std::int64_t left = site.window, right = -1;
  const std::optional<Visible> seen = visible_keys_of(site, heads.front());
  if (seen && seen->irregular) {
    add_bias_tensor(flow, site, layer);
  } else if (seen) {
    if (seen->left >= 0) left = seen->left;
    const bool hides = seen->right >= 0 || (seen->causal && site.T == 1 && site.S == 1);
    if (seen->right == 0 && seen->causal)
      causal = true;
    else if (hides && seen->right > 0)
      right = seen->right;
    if (seen->varies) {
      if (is_alibi(site, heads))
        set("alibi", "true");
      else if (!add_onnx_relative_bias(flow, site, heads, layer))
        add_bias_tensor(flow, site, layer);
    }
  }
  if (causal) set("causal", "true");
  if (left >= 0) set("window_left", std::to_string(left));
  if (right >= 0) set("window_right", std::to_string(right));
}

} // namespace mha::io
