#include "support/library_input.hpp"
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/schedule/tiles.hpp>

#include <catch2/catch.hpp>

#include <numeric>
#include <utility>

using Catch::Matchers::Contains;
using mha::Stage;
using mha::StageSet;

namespace {

mha::Layer layer_with(std::vector<Variant> variants, const Limits& limits = {}) {
  const RandomLayer random = random_layer(5, variants, false, limits);
  return library_layer(random.layer, random.form);
}

/// Numbers 1, 2, 3 … of some shape.
mha::NamedTensor counting(const mha::Shape& shape, bool bound = false) {
  std::vector<double> values(mha::count_of(shape));
  std::iota(values.begin(), values.end(), 1.0);
  return {mha::Tensor::of<double>(shape, values), "test", bound};
}

mha::Settings heads(const char* H) {
  mha::Settings settings;
  mha::set(settings, "num_heads", H, "test");
  return settings;
}

} // namespace

TEST_CASE("a plan computes what a stage needs and nothing else") {
  const mha::Layer layer = layer_with({});
  CHECK(mha::make_plan(layer, StageSet{Stage::v}).computed == StageSet{Stage::x, Stage::v});
  CHECK(mha::make_plan(layer, StageSet{Stage::scaled}).computed ==
        StageSet{Stage::x, Stage::q, Stage::k, Stage::scores, Stage::scaled});
  const mha::Plan rows = mha::make_plan(layer, StageSet{Stage::row_max});
  CHECK(contains(rows.computed, Stage::masked));
  CHECK_FALSE(contains(rows.computed, Stage::exp));
  CHECK_FALSE(contains(rows.computed, Stage::v));
  CHECK(contains(mha::make_plan(layer, StageSet{Stage::output}).computed, Stage::concat));
}

TEST_CASE("steps that a layer does not have stand for their own inputs") {
  const mha::Layer plain = layer_with({});
  CHECK(mha::inputs_of(plain, Stage::scores) == std::vector<Stage>{Stage::q, Stage::k});
  CHECK(mha::inputs_of(plain, Stage::masked) == std::vector<Stage>{Stage::scaled});
  CHECK_FALSE(mha::has_step(plain, Stage::capped));
  const mha::Layer rich = layer_with({Variant::qk_norm, Variant::rope_half, Variant::past,
                                      Variant::softcap, Variant::alibi_paper, Variant::residual,
                                      Variant::v_norm, Variant::head_norm, Variant::gate_heads});
  CHECK(mha::inputs_of(rich, Stage::scores) == std::vector<Stage>{Stage::q_rope, Stage::k_all});
  CHECK(mha::inputs_of(rich, Stage::q_rope) == std::vector<Stage>{Stage::q_norm});
  CHECK(mha::inputs_of(rich, Stage::masked) == std::vector<Stage>{Stage::biased});
  // Those of a whole model's stream stand around a layer; latent attention is another layer's.
  for (const mha::StageInfo& info : mha::stages()) {
    const bool latent =
        info.stage == Stage::c_q || info.stage == Stage::c_kv || info.stage == Stage::k_pe;
    CHECK(mha::contains(mha::available_stages(rich), info.stage) ==
          (!mha::is_stream(info.stage) && !latent));
  }
}

TEST_CASE("a stage that a layer does not have is an error that lists the ones it has") {
  const mha::Layer layer = layer_with({});
  CHECK_THROWS_WITH(mha::make_plan(layer, StageSet{Stage::capped}),
                    Contains("no capped") && Contains("if softcap is set") &&
                        Contains("x, q, k, v, scores, scaled"));
}

TEST_CASE("a selection plans the blocks and heads that hold it") {
  Limits limits;
  limits.tokens = 700;
  mha::Layer layer = layer_with({Variant::cross, Variant::gqa}, limits);
  REQUIRE(layer.dims.H > 1);
  mha::Selection selection;
  selection.head = mha::IndexList("1", "--head");
  const mha::Plan one = mha::make_plan(layer, StageSet{Stage::weights}, selection);
  CHECK(one.heads == std::vector<std::size_t>{1});
  CHECK(one.blocks.size() == (layer.dims.T + mha::block_queries - 1) / mha::block_queries);
  // The output needs every head.
  CHECK(mha::make_plan(layer, StageSet{Stage::weights, Stage::output}, selection).heads.size() ==
        layer.dims.H);

  selection.query = mha::IndexList(fmt::format("{},0", layer.dims.T - 1), "--query");
  const std::size_t last = (layer.dims.T - 1) / mha::block_queries;
  CHECK(mha::make_plan(layer, StageSet{Stage::weights}, selection).block_numbers ==
        (last == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, last}));
}

TEST_CASE("a layer may start at the weights alone") {
  mha::NamedTensors parts;
  parts["weights"] = counting({2, 3, 5});
  const mha::Layer layer = mha::make_layer(parts, {});
  CHECK(layer.dims.H == 2);
  CHECK(layer.dims.T == 3);
  CHECK(layer.dims.S_all == 5);
  CHECK(mha::available_stages(layer) == StageSet{Stage::weights});
  CHECK(mha::value_at(mha::trace(layer, {Stage::weights}).value(Stage::weights), 29) == 30);
  CHECK_THROWS_WITH(mha::make_plan(layer, StageSet{Stage::output}), Contains("weights"));
}

TEST_CASE("q, k and v alone, per head or packed, run the attention without projections") {
  mha::NamedTensors per_head, packed;
  per_head["q"] = counting({2, 3, 4}), per_head["k"] = counting({2, 5, 4}),
  per_head["v"] = counting({2, 5, 1});
  const mha::Layer layer = mha::make_layer(per_head, {});
  mha::StageSet available = mha::available_stages(layer);
  CHECK_FALSE(contains(available, Stage::x));
  CHECK(contains(available, Stage::output));
  CHECK(mha::trace(layer, {Stage::output}).value(Stage::output).shape() == mha::Shape{3, 2});

  packed["Q"] = counting({3, 8}), packed["K"] = counting({5, 8}), packed["V"] = counting({5, 2});
  const mha::Layer other = mha::make_layer(packed, heads("2"));
  const mha::Trace trace = mha::trace(other, {Stage::q});
  CHECK(trace.value(Stage::q).shape() == mha::Shape{2, 3, 4});
  CHECK(mha::value_at(trace.value(Stage::q), 12) ==
        5); // head 1, token 0: after head 0's four numbers
}

TEST_CASE("chosen rows reach from the first query of the selection to the last, in steps") {
  mha::Plan plan;
  plan.queries = {3, 70, 71, 300, 511};
  const auto rows = [&](std::size_t first, std::size_t count, std::size_t step) {
    const mha::Tile chosen = mha::chosen_rows(plan, {0, first, count, {}}, step);
    return std::pair(chosen.first, chosen.first + chosen.count);
  };
  CHECK(rows(0, 256, 1) == std::pair<std::size_t, std::size_t>(3, 72));
  CHECK(rows(0, 256, 32) == std::pair<std::size_t, std::size_t>(0, 96));
  CHECK(rows(256, 256, 1) == std::pair<std::size_t, std::size_t>(300, 512));
  CHECK(rows(256, 256, 32) == std::pair<std::size_t, std::size_t>(288, 512));
  plan.queries = {299};
  CHECK(rows(256, 44, 1) == std::pair<std::size_t, std::size_t>(299, 300));
  CHECK(rows(256, 44, 32) == std::pair<std::size_t, std::size_t>(288, 300)); // no further than T
}

TEST_CASE("a result merely found is passed over where its inputs are there; a bound one is not") {
  mha::NamedTensors parts;
  parts["X"] = counting({3, 4});
  parts["W_q"] = counting({4, 4}), parts["W_k"] = counting({4, 4}), parts["W_v"] = counting({4, 4});
  parts["weights"] = counting({2, 3, 3});
  std::vector<mha::Note> notes;
  const mha::Layer computed = mha::make_layer(parts, heads("2"), std::nullopt, {}, &notes);
  CHECK_FALSE(computed.has_given(Stage::weights));
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0].text, Contains("weights"));

  parts["weights"].bound = true;
  const mha::Layer patched = mha::make_layer(parts, heads("2"));
  CHECK(patched.has_given(Stage::weights));
  CHECK(mha::value_at(mha::trace(patched, {Stage::weights}).value(Stage::weights), 17) == 18);
  CHECK_FALSE(contains(mha::make_plan(patched, StageSet{Stage::output}).computed, Stage::scores));
}
