#include "support/compare.hpp"
#include "support/emulated_amx.hpp"
#include "support/library_input.hpp"
#include "support/requests.hpp"
#include "support/sanitizers.hpp"
#include "support/with_routine.hpp"
#include <mha/layer/graph.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

// A stage's bits depend on the layer alone: not on what else is asked for, which rows or heads, how
// many threads compute it, nor whether it is kept or streamed.

namespace {

std::vector<mha::Stage> stages_of(const mha::Layer& layer) {
  std::vector<mha::Stage> list;
  const mha::StageSet available = mha::available_stages(layer);
  for (const mha::StageInfo& info : mha::stages())
    if (contains(available, info.stage)) list.push_back(info.stage);
  return list;
}

void require_same_bits(const mha::Layer& layer, std::uint64_t seed,
                       const std::string& description) {
  Random random(seed);
  const std::vector<mha::Stage> stages = stages_of(layer);
  const mha::Trace whole = mha::trace(layer, stages, {}, 1);
  const std::size_t threads[] = {1, 2, 5};
  for (int i = 0; i < 6; ++i) {
    const Asked asked = random_request(random, layer, stages);
    const std::size_t n = threads[random.count(0, 2)];
    INFO(description << ": " << asked.description << "with " << n << " threads");
    const bool streams = random.chance(0.4);
    std::map<mha::Stage, mha::Tensor> values;
    if (streams) {
      values = streamed(layer, asked, n);
    } else {
      const mha::Trace part = mha::trace(layer, asked.stages, asked.selection, n);
      for (mha::Stage stage : asked.stages) values[stage] = part.value(stage);
    }
    for (const auto& [stage, value] : values) {
      INFO(name_of(stage) << (streams ? " streamed" : " kept"));
      CHECK(compare_bits(value, cut(layer, stage, asked.selection, whole.value(stage))) == "");
    }
  }
}

/// Now and then a number that is none, where only values or everything comes from.
void spoil(reference::Layer& layer, Random& random) {
  if (!random.chance(0.15)) return;
  const double bad = random.chance(0.5) ? std::numeric_limits<double>::infinity() : std::nan("");
  reference::Array& source = layer.X_v.empty() ? layer.X : layer.X_v;
  source.values[random.count(0, source.values.size() - 1)] = bad;
}

void require_same_bits(std::size_t tokens, std::uint64_t draws) {
  Limits limits;
  limits.tokens = tokens;
  if (tokens > 9) limits.heads = 3, limits.width = 24, limits.d_model = 70;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t seed = 1000 * tokens + i;
    RandomLayer drawn = random_layer(seed, random_variants(seed, 0, 4), i % 2 == 0, limits);
    Random random(seed);
    spoil(drawn.layer, random);
    drawn.form.one_source =
        drawn.form.one_source && drawn.layer.X_k.values == drawn.layer.X_v.values;
    require_same_bits(library_layer(drawn.layer, drawn.form), seed,
                      drawn.description + " seed " + std::to_string(seed));
  }
}

/// Numbers in float32, quickly.
mha::NamedTensor numbers(const mha::Shape& shape, float size) {
  static std::uint32_t state = 1;
  mha::Tensor tensor(mha::DType::f32, shape);
  for (float& value : tensor.as_mutable<float>()) {
    state = state * 1664525u + 1013904223u;
    value = size * (static_cast<float>(state >> 8) * 0x1p-23f - 1);
  }
  return {tensor, "test"};
}

/// NamedTensors of a layer too large to keep whole, each asked for in two ways.
void require_same_parts(const mha::Layer& layer, const std::vector<mha::Stage>& stages,
                        const char* head, const char* other_head, const char* query) {
  Asked few{stages, {}, ""};
  few.selection.head = mha::IndexList(head, "--head"),
  few.selection.query = mha::IndexList(query, "--query");
  Asked more = few;
  more.selection.head = mha::IndexList(std::string(head) + "," + other_head, "--head");
  more.selection.query.reset();
  const mha::Trace wide = mha::trace(layer, more.stages, more.selection, 2);
  const auto shown = [&](mha::Stage stage) {
    const mha::Tensor& whole = wide.value(stage);
    mha::Tensor first = layer.dims.batched ? whole.at(0) : whole;
    return info_of(stage).letters[0] == mha::Dim::H || info_of(stage).letters[0] == mha::Dim::H_kv
               ? first.at(0)
               : first;
  };
  for (mha::Stage stage : stages) {
    Asked alone{{stage}, few.selection, ""};
    if (axis_of(info_of(stage).letters[0]) != mha::Axis::head) alone.selection.head.reset();
    if (layer.dims.batched) alone.selection.batch = mha::IndexList("0", "--batch");
    const mha::Trace narrow = mha::trace(layer, alone.stages, alone.selection, 5);
    const std::size_t row = std::stoul(query);
    INFO(name_of(stage));
    CHECK(compare_bits(narrow.value(stage), shown(stage).at(row)) == "");
  }
}

} // namespace

TEST_CASE("the same bits however a small layer is asked for") {
  require_same_bits(9, sanitized ? 20 : 200);
}

TEST_CASE("the same bits however a layer of some blocks is asked for") {
  require_same_bits(80, sanitized ? 4 : 60);
  require_same_bits(320, sanitized ? 1 : 24);
}

TEST_CASE("the same bits however a layer of several key tiles is asked for") {
  require_same_bits(700, sanitized ? 1 : 24);
}

TEST_CASE("the same bits where a value is not finite and key tiles could be skipped") {
  Limits limits;
  limits.tokens = 700, limits.heads = 2;
  std::uint64_t found = 0;
  for (std::uint64_t seed = 0; found < (sanitized ? 1 : 6); ++seed) {
    const std::vector<Variant> variants{Variant::causal_top_left};
    RandomLayer drawn = random_layer(seed, variants, seed % 2 == 0, limits);
    if (drawn.layer.S() <= 520) continue;
    ++found;
    reference::Array& source = drawn.layer.X_v.empty() ? drawn.layer.X : drawn.layer.X_v;
    source.values.back() = std::nan("");
    drawn.form.one_source = false;
    require_same_bits(library_layer(drawn.layer, drawn.form), seed, drawn.description);
  }
}

namespace {

/// A layer of several tiles of everything.
mha::Layer layer_in_tiles(std::size_t T, std::size_t d) {
  const std::size_t H = 6, d_model = 240;
  mha::NamedTensors parts;
  parts["X"] = numbers({T, d_model}, 1.5f);
  for (const char* name : {"W_q", "W_k", "W_v"}) parts[name] = numbers({d_model, H * d}, 0.1f);
  parts["W_o"] = numbers({H * d, 320}, 0.1f);
  mha::Settings settings;
  mha::set(settings, "num_heads", "6", "test");
  mha::set(settings, "causal", "true", "test");
  return mha::make_layer(parts, settings);
}

void require_same_in_tiles(std::size_t T, std::size_t d, const char* query) {
  using enum mha::Stage;
  require_same_parts(layer_in_tiles(T, d),
                     {q, scores, masked, weights, row_sum, head_out, head_result, output}, "5", "3",
                     query);
}

} // namespace

TEST_CASE("the same bits in a layer of several tiles of everything") {
  if (sanitized) return;
  require_same_in_tiles(800, 40, "601");
}

TEST_CASE("the same bits where numbers are split") {
  const WithBf16x3 bf16x3;
  const WithRoutine path(mha::Routine::bf16x3);
  require_same_bits(60, sanitized ? 4 : 120);
  require_same_bits(700, sanitized ? 1 : 24);
  if (sanitized) return;
  require_same_in_tiles(800, 40, "601");
  require_same_in_tiles(100, 64, "77"); // few rows: the heads are cut, and W split as it is read
}

TEST_CASE("the same bits where few rows are cut by heads and columns remain") {
  const WithBf16x3 bf16x3;
  const WithRoutine path(mha::Routine::bf16x3);
  for (const auto& [H, d] : {std::pair<std::size_t, std::size_t>(3, 32), {5, 48}, {7, 32}})
    for (const std::size_t d_model :
         std::initializer_list<std::size_t>{96, 600}) { // one part of the depth, and two
      mha::NamedTensors parts;
      parts["X"] = numbers({100, d_model}, 1);
      for (const char* name : {"W_q", "W_k", "W_v"}) parts[name] = numbers({d_model, H * d}, 0.1f);
      for (const char* name : {"b_q", "b_k", "b_v"}) parts[name] = numbers({H * d}, 1);
      mha::Settings settings;
      mha::set(settings, "num_heads", std::to_string(H), "test");
      const mha::Layer layer = mha::make_layer(parts, settings);
      const std::vector<mha::Stage> stages{mha::Stage::q, mha::Stage::k, mha::Stage::v};
      const mha::Trace alone = mha::trace(layer, stages, {}, 1);
      for (int run = 0; run < (mha::bf16x3_kernels() == &emulated_amx ? 6 : 30); ++run) {
        const mha::Trace together = mha::trace(layer, stages, {}, 3);
        for (mha::Stage stage : stages) {
          INFO(name_of(stage) << ", " << H << " heads of " << d << ", run " << run);
          REQUIRE(compare_bits(together.value(stage), alone.value(stage)) == "");
        }
      }
    }
}

TEST_CASE("the same bits where shifted is given and scaled is there, too") {
  mha::NamedTensors parts;
  parts["q"] = numbers({2, 5, 4}, 1), parts["k"] = numbers({2, 5, 4}, 1);
  parts["shifted"] = numbers({2, 5, 5}, 1);
  parts["shifted"].bound = true;
  mha::Settings settings;
  mha::set(settings, "scale", "0.25", "test");
  const mha::Layer layer = mha::make_layer(parts, settings);
  const mha::Trace alone = mha::trace(layer, {mha::Stage::weights}, {}, 1);
  const mha::Trace both = mha::trace(layer, {mha::Stage::weights, mha::Stage::logsumexp}, {}, 1);
  CHECK(compare_bits(both.value(mha::Stage::weights), alone.value(mha::Stage::weights)) == "");
}
