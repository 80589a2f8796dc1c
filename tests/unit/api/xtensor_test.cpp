// Arrays of xtensor in and out: the calls of docs/library.md.

#include "unit/api/layers.hpp"

#include <mha/xtensor.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

using namespace mha::test;
using Catch::Contains;

static_assert(!std::is_assignable_v<decltype(std::declval<mha::Values<float>&>()(0)), float>,
              "values are read, not written");

TEST_CASE("api: xtensor arrays move in and share their memory out", "[api]") {
  xt::xarray<float> x = xt::ones<float>({5, 4});
  const xt::xtensor<float, 2, xt::layout_type::column_major> w = xt::eye<float>(4);
  const void* const at = x.data();
  const mha::Tensor copied = mha::tensor(x);
  CHECK(copied.raw() != at);
  const mha::Tensor moved = mha::tensor(std::move(x));
  CHECK(moved.raw() == at);
  xt::xtensor<double, 2> fixed = xt::ones<double>({2, 3});
  const void* const there = fixed.data();
  CHECK(mha::tensor(std::move(fixed)).raw() == there);
  CHECK(mha::tensor(2.F * xt::ones<float>({2, 3})).shape() == mha::Shape{2, 3});
  CHECK(mha::tensor(xt::xarray<bool>{true, false}).dtype() == mha::DType::boolean);
  CHECK(mha::tensor(xt::xarray<std::int64_t>{1, 2}).dtype() == mha::DType::i64);
  // Columns first, and a view: in rows.
  const xt::xtensor<float, 2, xt::layout_type::column_major> columns{{1, 2, 3}, {4, 5, 6}};
  CHECK(mha::value_at(mha::tensor(columns), 1) == 2);
  CHECK(mha::value_at(mha::tensor(xt::view(columns, xt::all(), 1)), 1) == 5);

  const auto layer = mha::layer({{"X", moved}, {"W_q", mha::tensor(w)}}, {.num_heads = 2});
  const auto weights = mha::run(layer)["pattern"];
  CHECK(weights.dimension() == 3);
  CHECK(weights.shape() == mha::Shape{2, 5, 5});
  CHECK((xt::allclose(xt::sum(weights, {2}), 1.F)));
  const mha::Cache cache = mha::run(layer);
  CHECK(static_cast<const void*>(cache["weights"].data()) == cache.tensor("weights").raw());
  CHECK((xt::view(cache.at(mha::Stage::output), 0).dimension() == 1));
}

TEST_CASE("api: another dtype than the layer's is an error", "[api]") {
  const mha::Cache single = mha::run(small_layer()), wide = mha::run(small_layer<double>());
  CHECK(error_of([&] { single.get<double>("pattern"); }) ==
        "pattern is float32, not float64: use get<float>(\"pattern\")");
  CHECK(error_of([&] { wide["weights"]; }) ==
        "weights is float64, not float32: use get<double>(\"weights\")");
  CHECK((xt::allclose(xt::sum(wide.get<double>("weights"), {2}), 1.0)));
  const auto stream = [](mha::Place, const auto&) {};
  CHECK_THAT(error_of([&] { mha::each(small_layer<double>(), mha::Stage::q, stream); }),
             Contains("each<double>"));
}

TEST_CASE("api: streamed rows may be kept, a patched step goes on", "[api]") {
  const mha::Layer layer = large_layer();
  const mha::Cache cache = mha::run(layer);
  std::vector<mha::Values<float, 2>> kept;
  mha::each(layer, mha::Stage::weights, [&](mha::Place p, auto rows) {
    CHECK((rows.shape()[0] == p.count && rows.shape()[1] == 300));
    kept.push_back(rows);
  });
  CHECK(kept.size() == 8);
  CHECK((xt::view(cache["weights"], 1, xt::range(256, 300)) == kept[3]));
  xt::xarray<float> patched = cache["weights"];
  CHECK(xt::all(
      xt::equal(mha::run(layer.with("weights", mha::tensor(patched)))["output"], cache["output"])));
  xt::view(patched, 2) *= 0.F;
  const auto head_out = mha::run(layer.with("weights", mha::tensor(patched)))["z"];
  CHECK((xt::amax(xt::abs(xt::view(head_out, 2)))() == 0));
  CHECK((xt::view(head_out, 1) == xt::view(cache["z"], 1)));
}

TEST_CASE("api: a whole model's stages by name", "[api]") {
  const mha::Model bard(data("bard-llama"));
  const auto pattern = bard.run(bard.tokens("text"), {.keep = {"pattern"}})["layers.3.pattern"];
  CHECK(pattern.dimension() == 3);
  CHECK((xt::allclose(xt::sum(pattern, {2}), 1.F)));
}
