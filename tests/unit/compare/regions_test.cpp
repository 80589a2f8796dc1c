// Where two arrays differ, and by how many numbers of their type.

#include <mha/compare/compare.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace mha;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

Layer sizes(std::size_t batch = 0) {
  Layer layer;
  layer.dtype = DType::f32;
  Dims& d = layer.dims;
  d.T = 40, d.S = 36, d.S_all = 36, d.H = 6, d.H_kv = 3, d.d_k = 5, d.d_v = 4, d.d_model = 7;
  d.d_out = 7;
  if (batch > 0) d.B = batch, d.batched = true;
  return layer;
}

/// A stage of ones, and a copy with some rows changed.
struct Rows {
  Layer layer;
  Stage stage;
  Tensor ours, theirs;

  Rows(const Layer& of, Stage which) : layer(of), stage(which) {
    ours = Tensor(DType::f32, layer.shape_of(stage));
    for (float& x : ours.as_mutable<float>()) x = 1;
    theirs = copy_of(view_of(ours));
  }
  /// One number of a row; `column` counts from the row's end where it is negative.
  void spoil(std::size_t item, std::size_t head, std::size_t row, std::size_t column = 0) {
    const Shape& shape = ours.shape();
    const std::size_t width = shape.back(), rows = shape.end()[-2];
    const std::size_t heads = info_of(stage).letters.size() == 3 ? shape.end()[-3] : 1;
    ours.as_mutable<float>()[((item * heads + head) * rows + row) * width + column] = 2;
  }
  Regions found() const { return mha::compare(layer, stage, ours, theirs, {1e-3, 0}).regions; }
};

} // namespace

TEST_CASE("regions: rows of heads that differ are put together") {
  Rows some(sizes(), Stage::head_out);
  CHECK(some.found().list.empty());
  for (std::size_t row = 7; row < 19; ++row) some.spoil(0, 4, row, row % 4);
  some.spoil(0, 4, 30);
  const Regions one = some.found();
  CHECK(one.exact);
  REQUIRE(one.list.size() == 1);
  CHECK(one.list[0] == Region{{{0, 0}}, {{4, 4}}, {{7, 18}, {30, 30}}, true, false, false});
  // A row of each head.
  for (std::size_t head = 0; head < 6; ++head) some.spoil(0, head, 39);
  const Regions two = some.found();
  REQUIRE(two.list.size() == 2);
  CHECK(two.list[0] == Region{{{0, 0}}, {{0, 3}, {5, 5}}, {{39, 39}}, true, false, false});
  CHECK(two.list[1] ==
        Region{{{0, 0}}, {{4, 4}}, {{7, 18}, {30, 30}, {39, 39}}, true, false, false});
}

TEST_CASE("regions: all heads, all rows, all items are said to be so") {
  Rows some(sizes(3), Stage::scores);
  for (std::size_t head = 0; head < 6; ++head)
    for (std::size_t row = 32; row < 40; ++row) some.spoil(1, head, row, row % 7);
  CHECK(some.found().list ==
        std::vector{Region{{{1, 1}}, {{0, 5}}, {{32, 39}}, false, true, false}});
  for (std::size_t item = 0; item < 3; ++item)
    for (std::size_t head = 0; head < 6; ++head)
      for (std::size_t row = 0; row < 40; ++row) some.spoil(item, head, row);
  CHECK(some.found().list == std::vector{Region{{{0, 2}}, {{0, 5}}, {{0, 39}}, true, true, true}});
}

TEST_CASE("regions: concat counts heads by its columns; keys have heads of their own") {
  Rows concat(sizes(), Stage::concat);
  concat.spoil(0, 0, 3, 2 * 4 + 1), concat.spoil(0, 0, 4, 2 * 4 + 3);
  CHECK(concat.found().list ==
        std::vector{Region{{{0, 0}}, {{2, 2}}, {{3, 4}}, true, false, false}});
  Rows v(sizes(2), Stage::v);
  for (std::size_t item = 0; item < 2; ++item) v.spoil(item, 1, 35);
  CHECK(v.found().list == std::vector{Region{{{0, 1}}, {{1, 1}}, {{35, 35}}, true, false, false}});
  Rows output(sizes(2), Stage::output); // has no heads
  output.spoil(1, 0, 39, 6);
  CHECK(output.found().list ==
        std::vector{Region{{{1, 1}}, {{0, 0}}, {{39, 39}}, false, true, false}});
}

TEST_CASE("regions: a pattern without end is one region around it, and says so") {
  Rows some(sizes(2), Stage::scores);
  for (std::size_t head = 1; head < 6; ++head)
    for (std::size_t row = head; row < 38; row += 2) some.spoil(head % 2, head, row);
  const Regions found = some.found();
  CHECK(found.exact == false);
  REQUIRE(found.list.size() == 1);
  CHECK(found.list[0].heads == IndexRanges{{1, 5}});
  CHECK(found.list[0].all_items);
  CHECK_FALSE(found.list[0].all_heads);
}

TEST_CASE("regions: rows behind the end of a shorter text are none") {
  Layer layer = sizes(2);
  layer.lengths = {40, 9};
  Rows some(layer, Stage::output);
  for (std::size_t row = 0; row < 40; ++row) some.spoil(1, 0, row);
  CHECK(some.found().list == std::vector{Region{{{1, 1}}, {{0, 0}}, {{0, 8}}, false, true, true}});
}

TEST_CASE("ulp: neighbours are one apart, in every type") {
  const auto next = [](float x) { return std::nextafter(x, 10.0F); };
  CHECK(ulp_distance(1, 1, DType::f32) == 0);
  CHECK(ulp_distance(0.0, -0.0, DType::f32) == 0);
  CHECK(ulp_distance(1, next(1), DType::f32) == 1);
  CHECK(ulp_distance(next(next(1)), 1, DType::f32) == 2);
  CHECK(ulp_distance(-1e-45, 1e-45, DType::f32) == 2); // across zero
  CHECK(ulp_distance(1, std::nextafter(1.0, 2.0), DType::f64) == 1);
  CHECK(ulp_distance(1, std::nextafter(1.0, 2.0), DType::f32) == 0); // rounded to it
  CHECK(ulp_distance(1, 1 + 1.0 / 128, DType::bf16) == 1);
  CHECK(ulp_distance(1, 1 + 0.4 / 128, DType::bf16) == 0);
  CHECK(ulp_distance(1, 1 + 1.0 / 1024, DType::f16) == 1);
  CHECK(ulp_distance(2, 2 + 8.0 / 512, DType::f16) == 8);
  CHECK(ulp_distance(0.04, 0.06, DType::bf16) == ulp_distance(-0.06, -0.04, DType::bf16));
  CHECK(ulp_distance(-1, 1, DType::bf16) == 256); // no bit is the same
  CHECK(ulp_distance(0.01, 0.06, DType::bf16) == 256);
  CHECK(ulp_distance(0, 1, DType::f32) == 1 << 24);
  for (const float a : {0.0F, -0.0F, 1.0F, -1.0F, 3e-40F, -1e30F, 1.0000001F})
    for (const float b : {0.0F, 1.0F, 0.9999999F, -3e-40F, 1e30F, -2.5F})
      CHECK(ulp_distance(a, b) ==
            ulp_distance(static_cast<double>(a), static_cast<double>(b), DType::f32));
  const double nan = std::nan("");
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    CHECK(ulp_distance(nan, nan, dtype) == 0);
    CHECK(ulp_distance(inf, inf, dtype) == 0);
    for (const double other : {1.0, inf, -inf}) CHECK(ulp_distance(nan, other, dtype) == inf);
    for (const double other : {1.0, -inf, nan}) CHECK(ulp_distance(inf, other, dtype) == inf);
  }
  CHECK(ulp_distance(inf, 1e6, DType::f16) == 0); // too large for the type
}

TEST_CASE("ulp: the largest, and how many are beyond 1, 2 and 8, in the coarser type") {
  const Layer layer = sizes();
  Tensor theirs(DType::f32, layer.shape_of(Stage::q));
  for (float& x : theirs.as_mutable<float>()) x = 1;
  const auto compared = [&](const Tensor& ours, DType stored) {
    return mha::compare(layer, Stage::q, ours, convert(theirs, stored), {10, 0}).ulp;
  };
  Tensor ours = copy_of(view_of(theirs));
  for (const int steps : {1, 2, 3, 8, 9, 40}) // each in a place of its own
    ours.as_mutable<float>()[static_cast<std::size_t>(steps) * 3] +=
        static_cast<float>(steps) / (1 << 23);
  const UlpCounts fine = compared(ours, DType::f32);
  CHECK(fine.largest == 40);
  CHECK(fine.beyond == std::array<std::size_t, 3>{5, 4, 2});
  CHECK(compared(ours, DType::bf16).largest == 0);
  ours.as_mutable<float>()[0] = 1 + 3.0F / 128;
  CHECK(compared(ours, DType::bf16).largest == 3);
  CHECK(compared(ours, DType::bf16).beyond == std::array<std::size_t, 3>{1, 1, 0});
  // A mask's constant is as far from −inf as it is wrong.
  Tensor masked(DType::f32, layer.shape_of(Stage::masked)), constant = copy_of(view_of(masked));
  masked.as_mutable<float>()[5] = -std::numeric_limits<float>::infinity();
  constant.as_mutable<float>()[5] = -1e9F;
  CHECK(mha::compare(layer, Stage::masked, masked, constant, {}).ulp.largest == 0);
}

TEST_CASE("the relative error of a number near zero is not endless") {
  const Layer layer = sizes();
  Tensor theirs(DType::f32, layer.shape_of(Stage::q));
  for (float& x : theirs.as_mutable<float>()) x = 1;
  for (const float small : {0.0F, 1e-12F, -1e-30F}) {
    theirs.as_mutable<float>()[3] = small;
    Tensor ours = copy_of(view_of(theirs));
    ours.as_mutable<float>()[3] = 0.01F;
    const Difference found = mha::compare(layer, Stage::q, ours, theirs, {1e-5, 1e-5});
    CHECK(found.max_rel == Approx(10).epsilon(1e-2)); // of a thousandth of the typical number
    CHECK(found.max_abs == Approx(0.01));
  }
}
