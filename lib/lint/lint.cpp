#include <mha/lint/lint.hpp>

#include <mha/layer/names.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha {

namespace {

const LintTensor* find(const LintSubject& subject, std::string_view name) {
  const auto at = std::find_if(subject.tensors.begin(), subject.tensors.end(),
                               [&](const LintTensor& entry) { return entry.name == name; });
  return at == subject.tensors.end() ? nullptr : &*at;
}

/// Warns of a W_qkv that does not consist of three equal parts, because H_kv < H.
void find_thirds(const LintSubject& subject, LintTexts& texts) {
  const LintTensor* fused = find(subject, "W_qkv");
  if (!fused || fused->tensor.rank() != 2) return;
  const bool columns = subject.loaded && subject.loaded->layer.settings.columns;
  const std::size_t width = fused->tensor.shape()[columns ? 0 : 1];
  if (!subject.loaded) {
    if (width % 3 != 0)
      texts.push_back(message("{} has {} columns, which are not three equal parts: key/value heads "
                              "are fewer than query "
                              "heads; give <num_heads> and <num_kv_heads>",
                              fused->source, width));
    return;
  }
  const Dims& d = subject.loaded->layer.dims;
  if (d.H == d.H_kv && d.d_k == d.d_v) return;
  const std::size_t q = d.H * d.d_k, k = d.H_kv * d.d_k, v = d.H_kv * d.d_v;
  texts.emplace_back(fmt::format(
      "{} holds {} columns of queries, {} of keys, {} of values: its thirds (chunk(3)) are none of "
      "them. Split it at {} and {}{}",
      fused->source, q, k, v, q, q + k,
      subject.loaded->layer.settings.qkv_order == QkvOrder::qkv
          ? ""
          : " of its columns in the order q, k, v; this layer has another order (qkv_order)"));
}

/// Warns of a square matrix whose orientation is not known: nn.Linear stores (out, in).
void find_unproven_squares(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  for (const Origin& origin : subject.loaded->origins) {
    if (!origin.name.starts_with("W_") || !origin.orientation_unknown) continue;
    if (origin.shape.size() != 2 || origin.shape[0] != origin.shape[1]) continue;
    texts.emplace_back(fmt::format(
        "{} is square, {}: taken as (in, out), applied as X W. The file does not show which, and "
        "PyTorch's nn.Linear stores (out, in): give {}=FILE@IO or @OI",
        origin.source, to_string(origin.shape), origin.name));
  }
}

/// Stages, masks and biases have −inf where a query may not attend.
bool may_be_infinite(std::string_view name) {
  for (std::string_view other : {"mask", "key_padding_mask", "bias", "relative_bias", "sinks",
                                 "biased", "masked", "row_max", "shifted", "logsumexp"})
    if (name == other) return true;
  return false;
}

void find_not_finite(const LintSubject& subject, LintTexts& texts) {
  for (const LintTensor& entry : subject.tensors) {
    const Summary& s = entry.summary;
    const std::size_t infinite = may_be_infinite(entry.name) ? 0 : s.infinite;
    if (s.nan + infinite == 0) continue;
    std::size_t at = 0;
    while (at < entry.tensor.count()) {
      const double value = value_at(entry.tensor, at);
      if (std::isnan(value) || (infinite > 0 && std::isinf(value))) break;
      ++at;
    }
    std::vector<std::size_t> place(entry.tensor.rank());
    for (std::size_t axis = place.size(); axis-- > 0; at /= entry.tensor.shape()[axis])
      place[axis] = at % entry.tensor.shape()[axis];
    std::string what;
    if (s.nan > 0) what = fmt::format("{} NaN", s.nan);
    if (infinite > 0) what += fmt::format("{}{} infinite", what.empty() ? "" : " and ", infinite);
    texts.emplace_back(
        fmt::format("{} has {} of {} numbers, the first at [{}]: everything computed "
                    "from them is lost; look at how the file was written",
                    entry.source, what, s.count, fmt::join(place, ", ")));
  }
}

/// Given weights must be rows of a softmax: without sinks they sum to 1, or are all 0.
void find_rows_that_do_not_sum(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  const Layer& layer = subject.loaded->layer;
  if (!layer.has_given(Stage::weights) || !layer.sinks.empty()) return;
  const Tensor& weights = layer.given[index_of(Stage::weights)]; // B, H, T, S
  const LintTensor* weights_read = find(subject, name_of(Stage::weights));
  const bool half = weights_read && size_of(weights_read->tensor.dtype()) == 2;
  const double bound = half ? 2e-2 : 1e-3; // S roundings
  const std::size_t S = layer.dims.S_all, rows = S == 0 ? 0 : weights.count() / S;
  std::size_t wrong = 0, worst_row = 0;
  double worst = 1;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t j = 0; j < S; ++j) sum += value_at(weights, row * S + j);
    if (sum == 0 || std::abs(sum - 1) <= bound || std::isnan(sum)) continue;
    ++wrong;
    if (std::abs(sum - 1) > std::abs(worst - 1)) worst = sum, worst_row = row;
  }
  if (wrong == 0) return;
  const std::size_t T = layer.dims.T;
  texts.emplace_back(fmt::format(
      "{}: {} of {} rows do not sum to 1 (head {} query {}: {:.6g}). Dropout left on, weights of "
      "another axis, or a sink that was dropped: save them in eval mode, and check the axes",
      weights_read ? weights_read->source : "weights", wrong, rows, worst_row / T % layer.dims.H,
      worst_row % T, worst));
}

/// g² of latent attention: DeepSeek multiplies the scale by (0.1 mscale_all_dim ln factor + 1)². 1
/// without such a rotary scaling.
double scale_of_mscale(const Settings& s) {
  if (s.rope_scaling != RopeScaling::yarn || s.rope_factor <= 1) return 1;
  const double g = 0.1 * s.rope_mscale_all_dim * std::log(s.rope_factor) + 1;
  return g * g;
}

/// Mistakes are factors such as √d_k, √H or 2. A scale very near 1/√d_k was chosen on purpose, and
/// families know their own.
void find_other_scale(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  const LoadedLayer& loaded = *subject.loaded;
  const Layer& layer = loaded.layer;
  const auto origin = layer.settings.origins.find("scale");
  if (origin == layer.settings.origins.end() || layer.dims.d_k == 0) return;
  if (loaded.naming != "canonical" && !is_given(origin->second)) return;
  // A bilinear form, X W Xᵀ, has no W_k and needs no scale.
  if (!layer.X.empty() && layer.W_k.empty() && !layer.has_given(Stage::k)) return;
  const double usual = 1 / std::sqrt(static_cast<double>(layer.dims.d_k)), scale = layer.scale();
  const double factor = scale / usual, latent = factor / scale_of_mscale(layer.settings);
  if (latent > 0.999 && latent < 1.001) return;
  if (factor > 0.95 && factor < 1.05) return;
  texts.emplace_back(
      fmt::format("scale is {:.6g} ({}), not 1/√d_k = 1/√{} = {:.6g}: scores are {:.4g} times what "
                  "they would be. If that is not meant, leave it out",
                  scale, origin->second, layer.dims.d_k, usual, factor));
}

/// Warns of a rotary scaling that scales nothing, or by a length that is not given.
void find_idle_rope_scaling(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  const Settings& s = subject.loaded->layer.settings;
  if (s.rope == Rope::none || s.rope_scaling == RopeScaling::none) return;
  const std::string kind = find_setting("rope_scaling")->get(s);
  if (s.rope_factor == 1 && s.rope_scaling != RopeScaling::longrope)
    texts.emplace_back(fmt::format(
        "rope_scaling {} with rope_factor 1 scales nothing: give the factor of the model's "
        "rope_scaling, or leave it out",
        kind));
  const bool by_length = // llama3's default is Llama 3.1's own
      s.rope_scaling != RopeScaling::linear && s.rope_scaling != RopeScaling::llama3;
  if (by_length && s.origins.count("rope_original_length") == 0)
    texts.emplace_back(fmt::format(
        "rope_scaling {} depends on the length that the model was trained on, which is not given: "
        "{:g} is taken; give rope_original_length (original_max_position_embeddings)",
        kind, s.rope_original_length));
}

/// Warns of scores beyond the type's range: they are not masked, and their rows are lost.
void find_overflow_of_scores(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  if (Message text = overflow_of(subject.loaded->layer, subject.threads); !text.empty())
    texts.push_back(std::move(text));
}

constexpr std::array all_checks{
    Check{"mask.named_bias", "a causal mask's buffer that is called bias", find_mask_named_bias},
    Check{"weight.thirds", "a fused weight whose thirds cannot be q, k, v", find_thirds},
    Check{"weight.orientation", "a square weight whose orientation is not known",
          find_unproven_squares},
    Check{"mask.inverted", "a boolean mask whose true entries are the wrong triangle",
          find_inverted_mask},
    Check{"mask.rows", "queries that may attend to no key", find_masked_rows},
    Check{"mask.constant", "a finite mask constant inside the range of the scores",
          find_small_mask_constant},
    Check{"weights.sum", "given weights whose rows do not sum to 1", find_rows_that_do_not_sum},
    Check{"numbers.finite", "NaN or infinity in weights and inputs", find_not_finite},
    Check{"numbers.overflow", "scores beyond the range of the layer's type",
          find_overflow_of_scores},
    Check{"scale", "a scale that is not 1/√d_k", find_other_scale},
    Check{"rope.scaling", "a rotary scaling without its factor or length", find_idle_rope_scaling},
};

} // namespace

std::span<const Check> checks() {
  return all_checks;
}

std::vector<Suspicion> lint(const LintSubject& subject) {
  std::vector<Suspicion> findings;
  for (const Check& check : all_checks) {
    LintTexts texts;
    check.run(subject, texts);
    for (Message& text : texts) findings.push_back({check.name, std::move(text)});
  }
  return findings;
}

} // namespace mha
