#include "support/compare.hpp"
#include "support/library_input.hpp"
#include "support/requests.hpp"
#include <mha/layer/select.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <algorithm>

using Catch::Matchers::Contains;
using Indices = std::vector<std::size_t>;

namespace {

Indices picked(const char* text, std::size_t count) {
  return mha::IndexList(text, "--head").resolve(count, "heads").indices;
}

mha::Layer layer_with(std::vector<Variant> variants, std::uint64_t seed = 3) {
  const RandomLayer random = random_layer(seed, variants, false);
  return library_layer(random.layer, random.form);
}

} // namespace

TEST_CASE("index lists are indices, runs with both ends and NumPy slices") {
  CHECK(picked("3", 8) == Indices{3});
  CHECK(picked("-1", 8) == Indices{7});
  CHECK(picked("0,5,2", 8) == Indices{0, 5, 2});
  CHECK(picked("2-4", 8) == Indices{2, 3, 4});
  CHECK(picked("7-7", 8) == Indices{7});
  CHECK(picked("2:4", 8) == Indices{2, 3});
  CHECK(picked("6:", 8) == Indices{6, 7});
  CHECK(picked(":2", 8) == Indices{0, 1});
  CHECK(picked("-2:", 8) == Indices{6, 7});
  CHECK(picked("::3", 8) == Indices{0, 3, 6});
  CHECK(picked("::-1", 3) == Indices{2, 1, 0});
  CHECK(picked("5:100", 8) == Indices{5, 6, 7}); // as NumPy: a slice may be too long
  CHECK(picked("1,0-2,1:3", 8) == Indices{1, 0, 2});
}

TEST_CASE("a list of indices is that of their text") {
  for (const Indices& indices : {Indices{3}, Indices{5, 0, 2}, Indices{1, 1}, Indices{9}}) {
    std::string text;
    for (const std::size_t index : indices)
      text += (text.empty() ? "" : ",") + std::to_string(index);
    INFO(text);
    const mha::IndexList made = mha::IndexList::of_indices(indices, "--head"), read(text, "--head");
    CHECK(made.text() == text);
    CHECK(made.option() == "--head");
    CHECK_FALSE(made.names_tokens());
    if (indices[0] > 8) {
      CHECK_THROWS_WITH(made.resolve(8, "heads"), "--head 9: there are 8 heads (0 to 7)");
      continue;
    }
    CHECK(made.resolve(8, "heads").indices == read.resolve(8, "heads").indices);
    CHECK(made.resolve(8, "heads").drops_axis == read.resolve(8, "heads").drops_axis);
  }
  CHECK_THROWS_WITH(mha::IndexList::of_indices({}, "--head"),
                    Contains("--head '': '' is not an index"));
  CHECK_THROWS_WITH(mha::IndexList::of_indices({Indices::size_type(-1)}, "--head"),
                    Contains("is not an index"));
}

TEST_CASE("one bare index drops its axis, lists and ranges keep it") {
  const auto drops = [](const char* text) {
    return mha::IndexList(text, "--head").resolve(8, "heads").drops_axis;
  };
  CHECK(drops("3"));
  CHECK(drops("-1"));
  CHECK_FALSE(drops("3,4"));
  CHECK_FALSE(drops("3-3"));
  CHECK_FALSE(drops("3:4"));
}

TEST_CASE("refuses what is no index, and indices that are not there") {
  for (const char* text : {"", "a", "1,", "1-", "4-2", "1.5", "1:2:3:4", "::0", "1--2", "0x1"}) {
    INFO("'" << text << "'");
    CHECK_THROWS_WITH(mha::IndexList(text, "--head"), Contains("--head"));
  }
  CHECK_THROWS_WITH(picked("8", 8), Contains("8 heads (0 to 7)"));
  CHECK_THROWS_WITH(picked("-9", 8), Contains("8 heads"));
  CHECK_THROWS_WITH(picked("2-8", 8), Contains("8 heads"));
  CHECK_THROWS_WITH(picked("4:2", 8), Contains("selects nothing"));
}

TEST_CASE("query heads select the key/value heads that they read, once each, in their order") {
  const std::vector<Variant> gqa{Variant::gqa};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const mha::Layer layer = layer_with(gqa, seed);
    const std::size_t group = layer.dims.group(), last = layer.dims.H - 1;
    mha::Selection selection;
    selection.head = mha::IndexList(fmt::format("{},0,1", last), "--head");
    const auto axes = selected_axes(layer, mha::Stage::k, selection);
    const mha::SelectedAxis& heads = axes[layer.dims.batched ? 1 : 0];
    Indices expected;
    for (std::size_t h : {last, std::size_t{0}, std::size_t{1}})
      if (std::ranges::find(expected, h / group) == expected.end()) expected.push_back(h / group);
    CHECK(heads.pick.indices == expected);
    CHECK(heads.count == layer.dims.H_kv);
  }
}

TEST_CASE("a selection on an axis that no stage has is an error") {
  const std::vector<Variant> none;
  const mha::Layer layer = layer_with(none);
  mha::Selection keys;
  keys.key = mha::IndexList("0", "--key");
  CHECK_THROWS_WITH(mha::trace(layer, {mha::Stage::output}, keys),
                    Contains("--key 0") && Contains("output"));
  CHECK_NOTHROW(mha::trace(layer, {mha::Stage::output, mha::Stage::weights}, keys));
  mha::Selection heads;
  heads.head = mha::IndexList("0", "--head");
  CHECK_THROWS_WITH(mha::trace(layer, {mha::Stage::concat}, heads), Contains("no head axis"));
  if (!layer.dims.batched) {
    mha::Selection batch;
    batch.batch = mha::IndexList("0", "--batch");
    CHECK_THROWS_WITH(mha::trace(layer, {mha::Stage::output}, batch), Contains("not batched"));
  }
}

TEST_CASE("a selected stage is its part of the whole, in the order asked for") {
  for (const bool columns : {false, true}) {
    std::vector<Variant> variants{Variant::cross};
    if (columns) variants.push_back(Variant::columns);
    Limits limits;
    limits.tokens = 30;
    const RandomLayer random = random_layer(11, variants, false, limits);
    const mha::Layer layer = library_layer(random.layer, random.form);
    const std::vector<mha::Stage> stages{mha::Stage::weights};
    const mha::Trace whole = mha::trace(layer, stages);
    mha::Selection selection;
    selection.query = mha::IndexList(fmt::format("{},0", layer.dims.T - 1), "--query");
    selection.key = mha::IndexList("1", "--key");
    const mha::Trace part = mha::trace(layer, stages, selection);
    const mha::Tensor& value = part.value(mha::Stage::weights);
    CHECK(value.rank() == whole.value(mha::Stage::weights).rank() - 1);
    CHECK(compare_bits(value, cut(layer, mha::Stage::weights, selection,
                                  whole.value(mha::Stage::weights))) == "");
  }
}
