// What is reported as masked is masked, and what overflowed is reported so: never one for the
// other.

#include "support/library_input.hpp"
#include "support/sanitizers.hpp"

#include <mha/explain/explain.hpp>
#include <mha/heads/measures.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/observe/overflow.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cmath>
#include <limits>

using namespace mha;
using Catch::Contains;

namespace {

constexpr double largest = 3.4028234e38;

/// Two tokens of width 1; the scores are the products of their numbers.
Layer two_tokens(float first, float second, Settings settings = {}) {
  settings.num_heads = 1;
  NamedTensors parts;
  parts["X"].tensor = Tensor::of<float>({2, 1}, std::vector<float>{first, second});
  parts["X_kv"].tensor = Tensor::of<float>({2, 1}, std::vector<float>{1e30F, 1e30F});
  parts["W_v"].tensor = Tensor::of<float>({1, 1}, std::vector<float>{1e-30F});
  return make_layer(parts, settings);
}

std::string notes_of(const HeadExplanation& head) {
  Message notes;
  for (const Message& note : head.notes) notes += note + "\n";
  return notes.in_words(Wording::command_line);
}

/// What masks alone make of a row of zeros: not 0 = masked.
reference::Array masks_of(const reference::Layer& layer) {
  reference::Layer zeros = layer;
  const reference::Array scores = reference::compute(layer).at("scores");
  zeros.given.clear();
  zeros.given["scores"] = reference::Array(scores.shape);
  return reference::compute(zeros).at("masked");
}

/// The largest magnitude of a stage at a row (all of it for keys and values).
double peak(const reference::Array& stage, std::size_t b, std::size_t h, std::size_t t,
            const reference::Array* masks) {
  double peak = 0;
  for (std::size_t j = 0; j < stage.shape[3]; ++j)
    if (!masks || !std::isinf((*masks)(b, h, t, j)))
      peak = std::max(peak, std::fabs(stage(b, h, t, j)));
  return peak;
}

/// Numbers from 1e-45 to 3e38, and layers whose scores end near float32's last number.
RandomLayer extreme_layer(std::uint64_t seed) {
  constexpr Variant variants[] = {
      Variant::causal,     Variant::window_left, Variant::window_right, Variant::infinite_mask,
      Variant::block_mask, Variant::padding,     Variant::kv_lengths,   Variant::gqa,
      Variant::cross,      Variant::softcap,     Variant::rope_half,    Variant::past,
      Variant::float_mask, Variant::no_biases,   Variant::scale_number, Variant::scale_none};
  Random random(seed * 7919 + 1);
  std::vector<Variant> chosen;
  for (std::size_t i = random.count(0, 3); i > 0; --i)
    chosen.push_back(variants[random.count(0, std::size(variants) - 1)]);
  RandomLayer layer =
      random_layer(seed, chosen, true, {.tokens = 4, .heads = 2, .width = 3, .d_model = 5});
  const auto scale = [&](reference::Array& array, double factor) {
    for (double& value : array.values) {
      value = static_cast<float>(value * factor);
      if (!std::isfinite(value)) value = value > 0 ? largest : -largest;
    }
  };
  // Most of the exponents are where products of two, or of three, cross the end.
  const double x = random.uniform(-22, 20), w = random.uniform(-18, 19);
  for (reference::Array* array : {&layer.layer.X, &layer.layer.X_k, &layer.layer.X_v})
    scale(*array, std::pow(10, x));
  for (reference::Array* array : {&layer.layer.W_q, &layer.layer.W_k})
    scale(*array, std::pow(10, w));
  return layer;
}

} // namespace

TEST_CASE("overflow: scores beyond float32 are told as overflow, not as masked", "[overflow]") {
  const Layer layer = two_tokens(-1e30F, 1);
  CHECK(masked_keys(layer, 0, 0, 0) == std::vector<std::uint8_t>{0, 0});
  const Explanation told = explain(layer, {0, 0, 0});
  CHECK(told.heads[0].masked_count() == 0);
  CHECK_THAT(notes_of(told.heads[0]), !Contains("masked") &&
                                          Contains("overflow: 2 of scores are "
                                                   "−inf") &&
                                          Contains("head 0, query 0") && Contains("--dtype f64"));
  CHECK(explain(layer, {0, 1, 0}).heads[0].notes.empty());

  const std::optional<Overflow> found = find_overflow(layer, 0, 0, 0);
  REQUIRE(found);
  CHECK(found->stage == Stage::scores);
  CHECK(found->count == 2);
  CHECK_FALSE(find_overflow(layer, 0, 0, 1));
}

TEST_CASE("overflow: +inf, a projection, and a scale are told where they come in", "[overflow]") {
  CHECK_THAT(notes_of(explain(two_tokens(1e30F, 1), {0, 0, 0}).heads[0]),
             Contains("overflow: 2 of scores are inf"));
  Settings scaled;
  set(scaled, "scale", "1e20", "test");
  CHECK_THAT(notes_of(explain(two_tokens(1, 1), {0, 0, 0}).heads[0]), !Contains("overflow"));
  CHECK_THAT(notes_of(explain(two_tokens(1, 1, scaled), {0, 0, 0}).heads[0]),
             Contains("overflow: 2 of scaled are inf"));
  NamedTensors parts;
  parts["X"].tensor = Tensor::of<float>({1, 1}, std::vector<float>{1e30F});
  parts["W_q"].tensor = Tensor::of<float>({1, 1}, std::vector<float>{-1e30F});
  Settings one;
  one.num_heads = 1;
  CHECK_THAT(notes_of(explain(make_layer(parts, one), {0, 0, 0}).heads[0]),
             Contains("overflow: 1 of q is −inf"));
}

TEST_CASE("overflow: what was given infinite did not overflow here", "[overflow]") {
  CHECK_FALSE(find_overflow(two_tokens(-INFINITY, 1), 0, 0, 0));
  CHECK_FALSE(find_overflow(two_tokens(NAN, 1), 0, 0, 0));
  NamedTensors parts;
  parts["scores"].tensor = Tensor::of<float>({1, 1, 2}, std::vector<float>{INFINITY, 0});
  CHECK_FALSE(find_overflow(make_layer(parts, {}), 0, 0, 0));
}

TEST_CASE("masked keys: masks say it, whatever the scores are", "[overflow]") {
  Settings causal;
  causal.causal = true;
  CHECK(masked_keys(two_tokens(-1e30F, 1, causal), 0, 0, 0) == std::vector<std::uint8_t>{0, 1});
  // A float mask's −inf masks, and so does a position bias'.
  for (const char* name : {"mask", "bias"}) {
    NamedTensors parts;
    parts["X"].tensor = Tensor::of<float>({2, 1}, std::vector<float>{1, 1});
    parts[name].tensor = Tensor::of<float>({1, 2}, std::vector<float>{0, -INFINITY});
    Settings one;
    one.num_heads = 1;
    const Layer layer = make_layer(parts, one);
    CHECK(masked_keys(layer, 0, 0, 1) == std::vector<std::uint8_t>{0, 1});
    CHECK(explain(layer, {0, 1, 0}).heads[0].masked_count() == 1);
  }
  // So does what no score reaches, beside a key that is seen; a row of it is attended evenly.
  for (const float low : {-1e9F, std::numeric_limits<float>::lowest()}) {
    NamedTensors parts;
    parts["X"].tensor = Tensor::of<float>({2, 1}, std::vector<float>{1, 1});
    parts["mask"].tensor = Tensor::of<float>({2, 2}, std::vector<float>{0, low, low, low});
    Settings one;
    one.num_heads = 1;
    const Layer layer = make_layer(parts, one);
    CHECK(masked_keys(layer, 0, 0, 0) == std::vector<std::uint8_t>{0, 1});
    CHECK(masked_keys(layer, 0, 0, 1) == std::vector<std::uint8_t>{0, 0});
  }
  // A given `masked` decides by its −inf; given weights by the settings.
  NamedTensors masked;
  masked["masked"].tensor = Tensor::of<float>({1, 1, 2}, std::vector<float>{-INFINITY, 3});
  CHECK(masked_keys(make_layer(masked, {}), 0, 0, 0) == std::vector<std::uint8_t>{1, 0});
  NamedTensors weights;
  weights["weights"].tensor = Tensor::of<float>({1, 2, 2}, std::vector<float>{1, 0, 0.5F, 0.5F});
  CHECK(masked_keys(make_layer(weights, causal), 0, 0, 0) == std::vector<std::uint8_t>{0, 1});
}

TEST_CASE("measures: a row that overflowed is no masked row, and is told", "[overflow]") {
  // Depends on the softmax, which makes NaN of such a row.
  const LayerMeasures measured = measure_heads(two_tokens(-1e30F, 1), {});
  CHECK(measured.heads[0].masked_rows == 0.0);
  CHECK_THAT(measured.overflow.in_words(Wording::program),
             Contains("overflow: 2 of scores are −inf") && Contains("query 0"));
  CHECK(measure_heads(two_tokens(-1, 1), {}).overflow.empty());
  Settings causal;
  causal.causal = true;
  CHECK(measure_heads(two_tokens(-1, 1, causal), {}).heads[0].masked_rows == 0.0);
}

TEST_CASE("2,000 random layers at the edges of float32: masked is masked, overflow is told",
          "[overflow]") {
  std::size_t told_overflow = 0, told_masked = 0;
  for (std::uint64_t seed = 0; seed < 2000 / one_of; ++seed) {
    const RandomLayer random = extreme_layer(seed);
    const Layer layer = library_layer(random.layer, random.form);
    if (layer.dtype != DType::f32) continue;
    const std::map<std::string, reference::Array> stages = reference::compute(random.layer);
    const reference::Array masks = masks_of(random.layer);
    // Numbers that partial sums cannot exceed: every number by its magnitude.
    reference::Layer magnitudes = random.layer;
    for (reference::Array* array :
         {&magnitudes.X, &magnitudes.X_k, &magnitudes.X_v, &magnitudes.W_q, &magnitudes.W_k,
          &magnitudes.W_v, &magnitudes.W_o, &magnitudes.b_q, &magnitudes.b_k, &magnitudes.b_v,
          &magnitudes.b_o, &magnitudes.k_past, &magnitudes.v_past})
      for (double& value : array->values) value = std::fabs(value);
    magnitudes.rope = reference::Rope::none;
    magnitudes.softcap = 0;
    double bound = 0;
    for (const auto& [name, stage] : reference::compute(magnitudes))
      if (name != "masked" && name != "shifted" && name != "row_max" && name != "logsumexp")
        for (double value : stage.values)
          if (std::isfinite(value)) bound = std::max(bound, std::fabs(value));
    for (double value : random.layer.mask.values)
      if (std::isfinite(value)) bound = std::max(bound, std::fabs(value));

    for (std::size_t b = 0; b < layer.dims.B; ++b)
      for (std::size_t t = 0; t < layer.dims.T; ++t) {
        const Explanation explanation = explain(layer, {b, t, std::nullopt});
        for (std::size_t h = 0; h < layer.dims.H; ++h) {
          INFO(seed << ": " << random.description << ", batch " << b << " head " << h << " query "
                    << t);
          const HeadExplanation& head = explanation.heads[h];
          std::size_t masked = 0;
          for (std::size_t j = 0; j < layer.dims.S_all; ++j) {
            const bool is = std::isinf(masks(b, h, t, j));
            masked += is;
            if (head.is_masked(j) != is) FAIL("key " << j << " is told as the other");
          }
          told_masked += masked;
          const bool all_masked = masked == layer.dims.S_all;
          const std::string notes = notes_of(head);
          if (Contains("every key is masked").match(notes) != all_masked)
            FAIL(notes << ": " << masked << " of " << layer.dims.S_all << " keys are masked");
          if (all_masked) continue;
          double beyond = peak(stages.at("q"), b, h, t, nullptr);
          for (const char* stage : {"scores", "scaled"})
            beyond = std::max(beyond, peak(stages.at(stage), b, h, t, &masks));
          const bool told = Contains("overflow").match(notes);
          told_overflow += told;
          if (beyond > 2 * largest && !told)
            FAIL("a number of " << beyond << " is not told: " << notes);
          if (bound < largest / 16 && told)
            FAIL("nothing is beyond " << bound << ", but: " << notes);
        }
      }
  }
  CHECK(told_overflow > 1000 / one_of);
  CHECK(told_masked > 1000 / one_of);
}
