#include <mha/lint/lint.hpp>

#include <mha/layer/graph.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace mha {

namespace {

/// Whether element (i, j) of the last two axes equals expected(i, j) in every leading slice.
bool has_pattern(const Tensor& tensor, bool (*expected)(std::size_t i, std::size_t j)) {
  const std::size_t n = tensor.shape().back();
  for (std::size_t at = 0; at < tensor.count(); ++at)
    if ((value_at(tensor, at) != 0) != expected(at / n % n, at % n)) return false;
  return true;
}

bool is_square_map(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  return shape.size() >= 2 && shape.back() == shape[shape.size() - 2] && shape.back() > 1 &&
         tensor.count() > 0;
}

bool only_zeros_and_ones(const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (const double value = value_at(tensor, i); value != 0 && value != 1) return false;
  return true;
}

/// "0–2, 5": the first few runs of numbers.
std::string runs_text(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t i = 0, runs = 0; i < numbers.size(); ++runs) {
    if (runs == 4) return text + ", …";
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("–{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

/// Whether a mask blocks (b, h, t, j), where j counts its own keys.
bool blocks(const Broadcast& mask, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
  return mask.row<std::uint8_t>(b, h, t)[j * mask.strides[3]] != 0;
}

/// Whether a mask lets every query see all later keys and no earlier ones.
bool shows_the_future(const Layer& layer, const Broadcast& mask) {
  const Dims& d = layer.dims;
  if (mask.strides[2] == 0 || mask.strides[3] == 0 || mask.keys != d.T || d.T < 2 ||
      mask.first_key != 0)
    return false;
  const std::size_t batches = mask.strides[0] == 0 ? 1 : d.B,
                    heads = mask.strides[1] == 0 ? 1 : d.H;
  for (std::size_t b = 0; b < batches; ++b)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t t = 0; t < d.T; ++t)
        for (std::size_t j = 0; j < d.T; ++j)
          if (j != t && blocks(mask, b, h, t, j) != (j < t)) return false;
  return true;
}

/// The queries of one batch item and head that may attend to nothing.
std::vector<std::size_t> masked_rows(const Layer& layer, std::size_t b, std::size_t h) {
  std::vector<std::size_t> queries;
  std::vector<std::uint8_t> masked;
  for (std::size_t t = 0; t < layer.dims.T; ++t) {
    masked_keys(layer, b, h, t, masked);
    if (std::ranges::find(masked, 0) == masked.end()) queries.push_back(t);
  }
  return queries;
}

} // namespace

/// Warns of GPT-2's `attn.bias`, a buffer with the lower triangle of ones for its causal mask.
void find_mask_named_bias(const LintSubject& subject, LintTexts& texts) {
  for (const LintTensor& entry : subject.tensors) {
    if (entry.name != "bias" || !is_square_map(entry.tensor)) continue;
    if (!only_zeros_and_ones(entry.tensor)) continue;
    if (has_pattern(entry.tensor, [](std::size_t i, std::size_t j) { return j <= i; }))
      texts.push_back(
          message("{} is the lower triangle of ones, a causal mask's buffer as GPT-2 has it, not a "
                  "position bias: leave it out and give <causal>",
                  entry.source));
  }
}

void find_inverted_mask(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  const Layer& layer = subject.loaded->layer;
  for (const Broadcast& mask : layer.blocked)
    if (shows_the_future(layer, mask))
      texts.emplace_back(fmt::format(
          "{} lets every query see later keys only, as if a causal mask were inverted. `mask` is "
          "true where a query may attend, `block_mask` where it may not: bind it as the other one",
          mask.origin));
}

void find_masked_rows(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  const Layer& layer = subject.loaded->layer;
  const Dims& d = layer.dims;
  if (d.T == 0 || d.S_all == 0 || d.extra + d.zero > 0) return;
  const bool by_head = masks_differ_by_head(layer);
  std::string places;
  std::size_t rows = 0, listed = 0;
  for (std::size_t b = 0; b < d.B; ++b)
    for (std::size_t h = 0; h < (by_head ? std::max<std::size_t>(d.H, 1) : 1); ++h) {
      const std::vector<std::size_t> queries = masked_rows(layer, b, h);
      if (queries.empty()) continue;
      rows += queries.size();
      if (++listed > 3) continue;
      places += places.empty() ? "" : "; ";
      if (d.batched) places += fmt::format("batch {} ", b);
      if (by_head) places += fmt::format("head {} ", h);
      places += fmt::format("{} {}", queries.size() == 1 ? "query" : "queries", runs_text(queries));
    }
  if (rows == 0) return;
  texts.push_back(message(
      "{}{} may attend to no key at all: {} here (<masked_rows>), NaN or the mean of the values "
      "elsewhere. Leave these rows out of a comparison, or let them see themselves",
      places, listed > 3 ? " and more" : "",
      layer.settings.masked_rows == MaskedRows::zero      ? "weights of 0"
      : layer.settings.masked_rows == MaskedRows::uniform ? "uniform weights"
                                                          : "NaN"));
}

/// Warns of a mask of zeros and one finite number that is not far below the scores: a hidden key
/// with a high score can beat a visible one.
void find_small_mask_constant(const LintSubject& subject, LintTexts& texts) {
  if (!subject.loaded) return;
  const Layer& layer = subject.loaded->layer;
  constexpr double negligible = 16; // e^−16: below what float32 weights show
  for (const Broadcast& mask : layer.added) {
    std::set<double> values;
    for (std::size_t i = 0; i < mask.tensor.count() && values.size() < 4; ++i)
      values.insert(value_at(mask.tensor, i));
    values.erase(0);
    values.erase(-std::numeric_limits<double>::infinity());
    if (values.size() != 1 || !(*values.begin() < 0)) continue;
    const double constant = *values.begin();
    const StageSet available = available_stages(layer);
    const std::vector<Stage> before = inputs_of(layer, Stage::masked);
    if (before.size() != 1 || !contains(available, before[0])) continue;
    const StageSet wanted{before[0]};
    Summaries range(layer, wanted);
    compute(layer, make_plan(layer, wanted), range, subject.threads);
    const Summary scores = range.of(before[0]);
    if (scores.finite == 0 || constant < scores.min - scores.max - negligible) continue;
    texts.emplace_back(fmt::format(
        "{} adds {:g} where a query may not attend, but the scores span {:.4g} to {:.4g}: hidden "
        "keys get weights, and may win. Use -inf, or a boolean mask",
        mask.origin, constant, scores.min, scores.max));
  }
}

} // namespace mha
