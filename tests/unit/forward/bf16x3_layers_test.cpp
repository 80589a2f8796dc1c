#include "support/compare.hpp"
#include "support/emulated_amx.hpp"
#include "support/library_input.hpp"
#include "support/requests.hpp"
#include "support/sanitizers.hpp"
#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/routine.hpp>
#include <mha/schedule/routines.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>

// Layers whose shape lets routine_for choose split products, as a processor with AMX runs them.

namespace {

struct Shape {
  std::size_t T, S, H, H_kv, d_k, d_v, d_model;
};

/// Few rows, cut by heads that do not end at 64 columns; many rows; more than a block of the depth;
/// several tiles of keys.
constexpr Shape shapes[] = {{100, 100, 5, 5, 48, 48, 96},
                            {100, 100, 3, 3, 32, 32, 600},
                            {70, 300, 4, 2, 64, 32, 120},
                            {300, 300, 4, 1, 32, 60, 160},
                            {260, 700, 2, 2, 56, 64, 128}};

/// `items`: of a batch; 0: none.
mha::NamedTensors parts_of(const Shape& s, std::uint64_t seed, std::size_t items = 0) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  const auto numbers = [&](mha::Shape shape, double size) {
    std::vector<double> values(mha::count_of(shape));
    for (double& value : values) value = size * normal(rng);
    return mha::NamedTensor{mha::convert(mha::Tensor::of<double>(shape, values), mha::DType::f32),
                            "test"};
  };
  mha::NamedTensors parts;
  parts["X"] =
      numbers(items > 0 ? mha::Shape{items, s.T, s.d_model} : mha::Shape{s.T, s.d_model}, 1);
  if (s.S != s.T) parts["X_kv"] = numbers({s.S, s.d_model}, 1);
  const double size = 1 / std::sqrt(static_cast<double>(s.d_model));
  for (const auto& [name, width] :
       {std::pair("q", s.H * s.d_k), {"k", s.H_kv * s.d_k}, {"v", s.H_kv * s.d_v}})
    parts[std::string("W_") + name] = numbers({s.d_model, width}, size),
                              parts[std::string("b_") + name] = numbers({width}, 1);
  parts["W_o"] = numbers({s.H * s.d_v, 64}, 0.1);
  return parts;
}

mha::Layer layer_of(const mha::NamedTensors& parts, const Shape& s, std::uint64_t seed) {
  mha::Settings settings;
  mha::set(settings, "num_heads", std::to_string(s.H), "test");
  mha::set(settings, "num_kv_heads", std::to_string(s.H_kv), "test");
  mha::set(settings, "causal", seed % 2 == 0 ? "true" : "false", "test");
  return mha::make_layer(parts, settings);
}
mha::Layer layer_of(const Shape& s, std::uint64_t seed) {
  return layer_of(parts_of(s, seed), s, seed);
}

std::vector<mha::Stage> stages_of(const mha::Layer& layer) {
  std::vector<mha::Stage> list;
  for (const mha::StageInfo& info : mha::stages())
    if (contains(mha::available_stages(layer), info.stage)) list.push_back(info.stage);
  return list;
}

} // namespace

TEST_CASE("AMX: the shape of a layer chooses split products, and they show in its bits") {
  for (const Shape& shape : shapes) {
    const mha::Layer layer = layer_of(shape, 1);
    const std::vector<mha::Stage> stages = stages_of(layer);
    const mha::Trace own = mha::trace(layer, stages, {}, 1); // split where the processor has AMX
    const bool by_processor = mha::bf16x3_kernels() != nullptr;
    const WithEmulatedBf16x3 amx;
    CHECK(mha::routine_for<float>(shape.T, 64, shape.d_model) == mha::Routine::bf16x3);
    const mha::Trace emulated = mha::trace(layer, stages, {}, 1);
    for (mha::Stage stage : stages) {
      INFO(shape.T << " tokens, d_model " << shape.d_model << ": " << name_of(stage));
      if (by_processor)
        CHECK(compare_bits(own.value(stage), emulated.value(stage)) == "");
      else if (stage == mha::Stage::q)
        CHECK(compare_bits(own.value(stage), emulated.value(stage)) != "");
    }
  }
}

TEST_CASE("AMX: the same bits on every number of threads, whatever is asked for") {
  const WithBf16x3 amx;
  for (const Shape& shape : std::span(shapes).first(sanitized ? 3 : 5))
    for (std::uint64_t seed = 0; seed < (sanitized ? 1 : 2); ++seed) {
      const mha::Layer layer = layer_of(shape, seed);
      const std::vector<mha::Stage> stages = stages_of(layer);
      const mha::Trace whole = mha::trace(layer, stages, {}, 1);
      Random random(seed);
      for (const std::size_t threads : {2u, 3u, 5u}) {
        const mha::Trace again = mha::trace(layer, stages, {}, threads);
        for (mha::Stage stage : stages) {
          INFO(shape.T << " tokens, " << name_of(stage) << " on " << threads << " threads");
          REQUIRE(compare_bits(again.value(stage), whole.value(stage)) == "");
        }
        const Asked asked = random_request(random, layer, stages);
        const mha::Trace some = mha::trace(layer, asked.stages, asked.selection, threads);
        for (mha::Stage stage : asked.stages) {
          INFO(asked.description << " on " << threads << " threads: " << name_of(stage));
          REQUIRE(compare_bits(some.value(stage),
                               cut(layer, stage, asked.selection, whole.value(stage))) == "");
        }
      }
    }
}

TEST_CASE("AMX: a number that does not split gives the same bits on every number of threads") {
  const WithBf16x3 amx;
  for (const Shape& shape : std::span(shapes).first(sanitized ? 2 : 5))
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e30F}) {
      mha::Layer layer = layer_of(shape, 3);
      layer.X.as_mutable<float>()[shape.T / 2 * shape.d_model + 7] = bad;
      const std::vector<mha::Stage> stages = stages_of(layer);
      const mha::Trace whole = mha::trace(layer, stages, {}, 1);
      for (const std::size_t threads : {2u, 3u, 5u}) {
        const mha::Trace again = mha::trace(layer, stages, {}, threads);
        for (mha::Stage stage : stages) {
          INFO(shape.T << " tokens, " << bad << ", " << name_of(stage));
          REQUIRE(compare_bits(again.value(stage), whole.value(stage)) == "");
        }
      }
    }
}

TEST_CASE("AMX: a short text beside long ones in a batch has the bits of its lone run") {
  const WithBf16x3 amx; // 64 rows and more are split
  const std::vector<std::size_t> lengths{20, 100, 64, 63};
  const Shape& shape = shapes[0];
  mha::NamedTensors parts = parts_of(shape, 2, lengths.size());
  mha::Tensor mask(mha::DType::i64, {lengths.size(), shape.T});
  for (std::size_t b = 0; b < lengths.size(); ++b)
    std::fill_n(mask.as_mutable<std::int64_t>().begin() + static_cast<std::ptrdiff_t>(b * shape.T),
                lengths[b], 1);
  const mha::Tensor X = parts["X"].tensor;
  parts["attention_mask"] = {mask, "test"};
  mha::Layer batch = layer_of(parts, shape, 2);
  batch.lengths = lengths;
  const std::vector<mha::Stage> stages{
      mha::Stage::q,        mha::Stage::k,           mha::Stage::v,     mha::Stage::weights,
      mha::Stage::head_out, mha::Stage::head_result, mha::Stage::output};
  const mha::Trace all = mha::trace(batch, stages, {}, 2);
  parts.erase("attention_mask");
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::size_t n = lengths[b];
    mha::Tensor own(mha::DType::f32, {n, shape.d_model});
    const mha::Tensor item = X.at(b);
    std::copy_n(item.as<float>().data(), own.count(), own.as_mutable<float>().data());
    parts["X"] = {own, "test"};
    const mha::Trace lone = mha::trace(layer_of(parts, shape, 2), stages, {}, 1);
    for (mha::Stage stage : stages) {
      INFO("of " << n << " tokens: " << name_of(stage));
      const mha::Tensor want = lone.value(stage), there = all.value(stage).at(b);
      const std::size_t row = want.shape().back(), tokens = want.shape()[want.rank() - 2],
                        padded = there.shape().back() * there.shape()[there.rank() - 2];
      std::size_t different = 0;
      for (std::size_t i = 0; i < want.count(); ++i) { // head, token, column
        const std::size_t head = i / (tokens * row), t = i / row % tokens, j = i % row;
        const float ours = there.as<float>()[head * padded + t * there.shape().back() + j];
        different +=
            std::bit_cast<std::uint32_t>(ours) != std::bit_cast<std::uint32_t>(want.as<float>()[i]);
      }
      CHECK(different == 0);
    }
  }
}

namespace {

/// A layer of four projections `width` × `width`, stored in a type, with a feed-forward of `d_ff`
/// around it (0: none).
mha::Layer stored_layer(std::size_t width, std::size_t d_ff, mha::DType stored) {
  mha::NamedTensors parts;
  parts["X"] = {mha::Tensor(mha::DType::f32, {64, width}), "test"};
  for (const char* name : {"W_q", "W_k", "W_v", "W_o"})
    parts[name] = {mha::Tensor(stored, {width, width}), "test"};
  mha::Settings settings;
  mha::set(settings, "num_heads", "1", "test");
  mha::Layer layer = mha::make_layer(parts, settings);
  if (d_ff == 0) return layer;
  mha::TransformerBlock block;
  block.mlp.in.W = mha::Tensor(stored, {width, d_ff});
  block.mlp.out.W = mha::Tensor(stored, {d_ff, width});
  layer.block = std::make_shared<const mha::TransformerBlock>(std::move(block));
  return layer;
}

} // namespace

TEST_CASE("AMX: float32 weights beyond the caches are multiplied plainly, short types in parts") {
  using mha::DType;
  struct Row {
    std::size_t width, d_ff;
    DType stored;
    bool splits;
  };
  const Row rows[] = {{512, 0, DType::f32, true},     {768, 0, DType::f32, true},
                      {1024, 0, DType::f32, true},    {1280, 0, DType::f32, false},
                      {768, 3072, DType::f32, false}, {768, 3072, DType::f64, false},
                      {768, 3072, DType::bf16, true}, {768, 3072, DType::f16, true},
                      {64, 256, DType::f32, true}};
  for (const Row& row : rows) {
    INFO(row.width << ", " << row.d_ff << ", " << name_of(row.stored));
    CHECK(mha::splitting_weights_pays(stored_layer(row.width, row.d_ff, row.stored)) == row.splits);
  }
}

TEST_CASE("AMX: the projections of a layer with large float32 weights have the plain bits") {
  constexpr std::size_t width = 1280;
  std::mt19937_64 rng(5);
  std::normal_distribution<float> normal;
  mha::Layer layer = stored_layer(width, 0, mha::DType::f32);
  for (float& number : layer.X.as_mutable<float>()) number = normal(rng);
  for (float& number : layer.W_q.as_mutable<float>()) number = normal(rng);
  const auto q_of = [&] { return mha::trace(layer, {mha::Stage::q}, {}, 2).value(mha::Stage::q); };
  const mha::Tensor amx = [&] {
    const WithBf16x3 units;
    return q_of();
  }();
  mha::set_routine(mha::Routine::fma);
  const mha::Tensor plain = q_of();
  mha::set_routine({});
  CHECK(compare_bits(amx, plain) == "");
}
