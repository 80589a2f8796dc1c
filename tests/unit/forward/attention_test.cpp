#include "support/compare.hpp"
#include "support/emulated_amx.hpp"
#include "support/library_input.hpp"
#include "support/sanitizers.hpp"
#include "support/with_routine.hpp"
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

// Every stage of random layers against the reference, which computes in double from the same
// numbers.

namespace {

constexpr std::uint64_t draws = sanitized ? 150 : 2000;

double bound_of(const RandomLayer& random, const std::map<std::string, reference::Array>& stages,
                const std::string& name) {
  const double logits = std::max(magnitude(stages.at("scaled")), magnitude(stages.at("masked")));
  return rounding_bound(random, logits, magnitude(stages.at(name)));
}

/// "" or the first stage, in the order of the computation, that differs.
std::string first_difference(const RandomLayer& random, std::size_t threads = 0) {
  const std::map<std::string, reference::Array> expected = reference::compute(random.layer);
  const mha::Layer layer = library_layer(random.layer, random.form);
  const mha::StageSet available = mha::available_stages(layer);
  std::vector<mha::Stage> wanted;
  for (const mha::StageInfo& info : mha::stages()) {
    if (contains(available, info.stage) != (expected.count(std::string(info.name)) == 1))
      return fmt::format("{} is {}there", info.name, contains(available, info.stage) ? "" : "not ");
    if (contains(available, info.stage)) wanted.push_back(info.stage);
  }
  const mha::Trace trace = mha::trace(layer, wanted, {}, threads);
  for (mha::Stage stage : wanted) {
    const std::string name(name_of(stage));
    mha::Tensor want = tensor_of(expected.at(name), mha::DType::f64, random.form.batched);
    if (random.form.columns && info_of(stage).kind != mha::Kind::row) want = mha::transposed(want);
    if (trace.value(stage).shape() != layer.shape_of(stage))
      return name + ": not the shape that the layer says";
    const std::string difference =
        compare(trace.value(stage), want, bound_of(random, expected, name));
    if (!difference.empty()) return name + ": " + difference;
  }
  return {};
}

void require_same(const RandomLayer& random) {
  std::string difference;
  try {
    difference = first_difference(random);
  } catch (const std::exception& error) {
    difference = error.what();
  }
  INFO(random.description << (random.form.single ? " float32" : " float64"));
  CHECK(difference == "");
}

} // namespace

TEST_CASE("each variant alone gives the reference's stages") {
  for (std::size_t i = 0; i < variant_count; ++i) {
    const Variant variant = static_cast<Variant>(i);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      INFO("seed " << seed);
      require_same(random_layer(1000 * i + seed, {&variant, 1}, seed % 2 == 1));
    }
  }
}

TEST_CASE("random combinations of variants give the reference's stages") {
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    INFO("seed " << seed);
    const std::vector<Variant> variants = random_variants(seed, 2, 6);
    require_same(random_layer(seed, variants, false));
    require_same(random_layer(seed, variants, true));
  }
}

TEST_CASE("layers of several blocks and key tiles give the reference's stages") {
  for (std::uint64_t seed = 0; seed < (sanitized ? 2u : 12u); ++seed) {
    INFO("seed " << seed);
    Limits limits;
    limits.tokens = 700, limits.heads = 2;
    const std::vector<Variant> variants = random_variants(seed + 7000, 2, 6);
    require_same(random_layer(seed, variants, false, limits));
    require_same(random_layer(seed, variants, true, limits));
  }
}

static void require_same_by(mha::Routine routine) {
  const WithRoutine path(routine);
  for (std::uint64_t seed = 0; seed < draws / 4; ++seed) {
    INFO("seed " << seed);
    Limits limits;
    if (seed % 50 == 0) limits.tokens = 700, limits.heads = 2;
    require_same(random_layer(seed, random_variants(seed + 30000, 1, 5), true, limits));
  }
}

TEST_CASE("where numbers are split, random layers give the reference's stages") {
  const WithBf16x3 bf16x3;
  require_same_by(mha::Routine::bf16x3);
}

TEST_CASE("a computation that starts at any stage goes on from it") {
  for (std::uint64_t seed = 0; seed < draws / 4; ++seed) {
    INFO("seed " << seed);
    const std::vector<Variant> variants = random_variants(seed + 90000, 1, 4);
    RandomLayer random = random_layer(seed, variants, seed % 2 == 1);
    const std::map<std::string, reference::Array> stages = reference::compute(random.layer);
    Random choice(seed);
    auto chosen = stages.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(choice.count(0, stages.size() - 1)));
    // Another value than the one computed, so that taking the wrong one shows.
    reference::Array patched = chosen->second;
    for (double& value : patched.values) {
      value = value * 1.25 + 0.125;
      if (random.form.single) value = static_cast<float>(value);
    }
    random.layer.given[chosen->first] = patched;
    random.description += " given " + chosen->first;
    require_same(random);
  }
}

TEST_CASE("numbers that are none spread as the formulas say") {
  for (std::uint64_t seed = 0; seed < draws / 5; ++seed) {
    INFO("seed " << seed);
    Limits limits;
    if (seed % 20 == 0) limits.tokens = 700, limits.heads = 2;
    RandomLayer random =
        random_layer(seed, random_variants(seed + 50000, 0, 4), seed % 2 == 1, limits);
    reference::Layer& layer = random.layer;
    Random choice(seed);
    const bool in_values = !layer.X_v.empty() && choice.chance(0.5);
    reference::Array& source = in_values ? layer.X_v : layer.X;
    source.values[choice.count(0, source.values.size() - 1)] =
        choice.chance(0.5) ? std::nan("") : std::numeric_limits<double>::infinity();
    random.form.one_source = random.form.one_source && !in_values;
    random.description += in_values ? " not finite in X_v" : " not finite in X";
    require_same(random);
  }
}

TEST_CASE("the naive softmax overflows where the formula does") {
  for (std::uint64_t seed = 0; seed < draws / 20; ++seed) {
    INFO("seed " << seed);
    std::vector<Variant> variants = random_variants(seed + 60000, 0, 3);
    for (Variant variant : {Variant::naive, Variant::scale_none}) variants.push_back(variant);
    RandomLayer random = random_layer(seed, variants, false);
    for (double& value : random.layer.X.values) value *= 700;
    require_same(random);
  }
}

TEST_CASE("a value that is not finite reaches queries that may not see it: zero times it is NaN") {
  // Tiles of keys that no query of a block sees are skipped only where that changes nothing.
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Limits limits;
    limits.tokens = 700, limits.heads = 2;
    const std::vector<Variant> variants{Variant::causal_top_left};
    RandomLayer random = random_layer(seed, variants, seed % 2 == 1, limits);
    reference::Layer& layer = random.layer;
    if (layer.S() <= 520 || layer.T() > 600) continue;
    reference::Array& source = layer.X_v.empty() ? layer.X : layer.X_v;
    source.values.back() = std::numeric_limits<double>::infinity();
    random.form.one_source = false;
    INFO("seed " << seed);
    require_same(random);
    return;
  }
  FAIL("no layer of more than one key tile was drawn");
}
