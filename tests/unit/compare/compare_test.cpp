#include <mha/compare/compare.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace mha;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

/// Two heads, three queries, four keys, head widths 5 and 6: nothing but sizes.
Layer sizes(DType dtype = DType::f64) {
  Layer layer;
  layer.dtype = dtype;
  Dims& d = layer.dims;
  d.T = 3, d.S = 4, d.S_all = 4, d.H = 2, d.H_kv = 1, d.d_k = 5, d.d_v = 6, d.d_model = 7,
  d.d_out = 7;
  return layer;
}

Tensor filled(const Layer& layer, Stage stage, double value) {
  Tensor tensor(DType::f64, layer.shape_of(stage));
  for (double& x : tensor.as_mutable<double>()) x = value;
  return convert(tensor, layer.dtype);
}

/// A copy with one element changed.
Tensor with(const Tensor& tensor, std::size_t index, double value) {
  Tensor copy = copy_of(view_of(tensor));
  if (copy.dtype() == DType::f64)
    copy.as_mutable<double>()[index] = value;
  else
    copy.as_mutable<float>()[index] = static_cast<float>(value);
  return copy;
}

Difference of_numbers(double ours, double theirs, Stage stage = Stage::scores,
                      Tolerance tolerance = {1e-5, 1e-3}) {
  const Layer layer = sizes();
  const Tensor base = filled(layer, stage, 1);
  return mha::compare(layer, stage, with(base, 2, ours), with(base, 2, theirs), tolerance);
}

} // namespace

TEST_CASE("a comparison names the worst element, its error and its head") {
  const Layer layer = sizes();
  const Tensor theirs = filled(layer, Stage::scores, 2);
  Tensor ours = with(theirs, 2 * 4 + 1, 2.5);        // head 0, query 2, key 1
  ours = with(ours, (1 * 3 + 0) * 4 + 3, 1.25);      // head 1, query 0, key 3
  ours = with(ours, (1 * 3 + 1) * 4 + 3, 2.0000001); // within tolerance
  ours = with(ours, (1 * 3 + 2) * 4 + 2, 2.1);
  const Difference found = mha::compare(layer, Stage::scores, ours, theirs, {1e-6, 1e-6});
  CHECK_FALSE(found.within);
  CHECK_FALSE(found.same_bits);
  CHECK(found.max_abs == 0.75);
  CHECK(found.max_rel == 0.375);
  CHECK(found.at == std::vector<std::size_t>{1, 0, 3});
  CHECK(found.ours == 1.25);
  CHECK(found.theirs == 2);
  CHECK(found.mismatched == 3);
  CHECK(found.count == 24);
  CHECK(found.worst_head == 1u);
  double dot = 0, aa = 0, rr = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    const double a = value_at(ours, i), r = value_at(theirs, i);
    dot += a * r, aa += a * a, rr += r * r;
  }
  CHECK(found.cosine == Approx(dot / std::sqrt(aa * rr)).epsilon(1e-14));
}

TEST_CASE("without an element out of tolerance, the errors are those of all") {
  const Difference found = of_numbers(1.0005, 1, Stage::scores);
  CHECK(found.within);
  CHECK_FALSE(found.same_bits);
  CHECK(found.mismatched == 0);
  CHECK(found.max_abs == Approx(0.0005));
  CHECK(found.at == std::vector<std::size_t>{0, 0, 2});
}

TEST_CASE("the bound is absolute + relative · |reference|, the reference's side") {
  CHECK(of_numbers(1.1, 1, Stage::scores, {0, 0.1001}).within);
  CHECK_FALSE(of_numbers(1.1, 1, Stage::scores, {0, 0.0999}).within);
  // 0.1 of the larger one would be enough, of the reference it is not.
  CHECK(of_numbers(1, 1.1, Stage::scores, {0, 0.095}).within);
  CHECK_FALSE(of_numbers(1.1, 1, Stage::scores, {0, 0.095}).within);
  CHECK(of_numbers(1.1, 1, Stage::scores, {0.1001, 0}).within);
  CHECK(of_numbers(-3, -3.5, Stage::scores, {0.1, 0.12}).within); // 0.5 ≤ 0.1 + 0.42
}

TEST_CASE("the default bounds are torch.testing.assert_close's for the coarser type") {
  CHECK(default_tolerance(DType::f64).absolute == 1e-7);
  CHECK(default_tolerance(DType::f64).relative == 1e-7);
  CHECK(default_tolerance(DType::f32).absolute == 1e-5);
  CHECK(default_tolerance(DType::f32).relative == 1.3e-6);
  CHECK(default_tolerance(DType::f16).absolute == 1e-5);
  CHECK(default_tolerance(DType::f16).relative == 1e-3);
  CHECK(default_tolerance(DType::bf16).absolute == 1e-5);
  CHECK(default_tolerance(DType::bf16).relative == 1.6e-2);
  CHECK(coarser_of(DType::f64, DType::f32) == DType::f32);
  CHECK(coarser_of(DType::bf16, DType::f16) == DType::bf16);
  CHECK(coarser_of(DType::f16, DType::f32) == DType::f16);
}

TEST_CASE("infinities equal themselves, NaN equals NaN, and neither equals a number") {
  CHECK(of_numbers(inf, inf).same_bits);
  CHECK(of_numbers(-inf, -inf).within);
  CHECK(of_numbers(not_a_number, not_a_number).same_bits);
  for (const auto& [a, r] : {std::pair(inf, -inf),
                             {inf, 1.0},
                             {1.0, inf},
                             {not_a_number, 1.0},
                             {1.0, not_a_number},
                             {not_a_number, inf},
                             {-inf, not_a_number}}) {
    INFO(a << " and " << r);
    const Difference found = of_numbers(a, r, Stage::masked, {100, 100});
    CHECK_FALSE(found.within);
    CHECK(found.mismatched == 1);
    CHECK(found.max_abs == inf);
    CHECK(found.at == std::vector<std::size_t>{0, 0, 2});
    CHECK(std::isfinite(found.cosine));
  }
}

TEST_CASE("−inf equals a finite mask constant, in the stages that show masks") {
  for (double constant : {-1e4, -65504.0, -1e9, -1e30, -9990.5}) {
    for (Stage stage : {Stage::masked, Stage::shifted, Stage::row_max, Stage::logsumexp}) {
      INFO(constant << " in " << name_of(stage));
      const Difference found = of_numbers(-inf, constant, stage);
      CHECK(found.within);
      CHECK_FALSE(found.same_bits);
      CHECK(found.max_abs == 0);
      CHECK(of_numbers(constant, -inf, stage).within);
    }
    CHECK_FALSE(of_numbers(-inf, constant, Stage::biased).within);
  }
  CHECK_FALSE(of_numbers(-inf, -30, Stage::masked).within);
  CHECK_FALSE(of_numbers(-inf, 1e9, Stage::masked).within);
  // Two finite ones are two numbers: nothing shows that they are masks …
  CHECK_FALSE(of_numbers(-1e9, -1e4, Stage::masked).within);
}

TEST_CASE("two finite mask constants are equal where the layer adds one") {
  Layer layer = sizes();
  Broadcast mask; // of one head for both, hiding key 2
  mask.tensor =
      Tensor::of<double>({3, 4}, std::vector<double>{0, 0, -1e9, 0, 0, 0, -1e9, 0, 0, 0, -1e9, 0});
  mask.strides = {0, 0, 4, 1};
  mask.keys = 4;
  layer.added.push_back(mask);
  const Tensor base = filled(layer, Stage::masked, 1);
  const auto compared = [&](std::size_t at) {
    return mha::compare(layer, Stage::masked, with(base, at, -1e9), with(base, at, -1e4), {});
  };
  CHECK(compared(2).within);
  CHECK(compared(12 + 4 + 2).within);
  CHECK_FALSE(compared(1).within);
}

TEST_CASE("the same bits are those of the coarser type") {
  const Layer layer = sizes(DType::f32);
  Tensor ours = filled(layer, Stage::q, 1.0 / 3);
  const auto stored = [&](DType dtype) {
    const Tensor low = convert(ours, dtype);
    return mha::compare(layer, Stage::q, ours, low, default_tolerance(dtype));
  };
  for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    INFO(name_of(dtype));
    CHECK(stored(dtype).same_bits);
    CHECK(stored(dtype).within);
  }
  // f64 numbers that round to ours.
  Tensor theirs(DType::f64, layer.shape_of(Stage::q));
  for (double& x : theirs.as_mutable<double>()) x = 1.0 / 3;
  CHECK(mha::compare(layer, Stage::q, ours, theirs, {}).same_bits);
  CHECK_FALSE(
      mha::compare(layer, Stage::q, ours, theirs, {}).within); // of tolerance 0 no number is
  // One half more is another number, but close.
  const Tensor next = convert(with(ours, 3, 0.33325195 + 0.000245), DType::f16);
  const Difference off = mha::compare(layer, Stage::q, ours, next, default_tolerance(DType::f16));
  CHECK_FALSE(off.same_bits);
  CHECK(off.within);
  // Minus zero is another number than zero, in bits.
  Tensor zero = filled(layer, Stage::q, 0);
  CHECK_FALSE(mha::compare(layer, Stage::q, zero, with(zero, 0, -0.0), {}).same_bits);
  CHECK(mha::compare(layer, Stage::q, zero, with(zero, 0, -0.0), {}).within);
}

TEST_CASE("concat counts heads by its columns, key/value stages their own") {
  const Layer layer = sizes();
  const Tensor concat = filled(layer, Stage::concat, 1);
  const Difference found =
      mha::compare(layer, Stage::concat, with(concat, 12 + 7, 9), concat, {}); // query 1, column 7
  CHECK(found.at == std::vector<std::size_t>{1, 7});
  CHECK(found.worst_head == 1u);
  const Tensor v = filled(layer, Stage::v, 1);
  CHECK_FALSE(mha::compare(layer, Stage::v, with(v, 0, 9), v, {}).worst_head); // there is one
}

TEST_CASE("batches and columns: places are those of the value as users see it") {
  Layer layer = sizes();
  layer.dims.B = 2, layer.dims.batched = true, layer.settings.columns = true;
  const Tensor theirs = filled(layer, Stage::head_out, 1); // 2, 2, 6, 3
  const std::size_t index = ((1 * 2 + 1) * 6 + 4) * 3 + 2;
  const Difference found = mha::compare(layer, Stage::head_out, with(theirs, index, 3), theirs, {});
  CHECK(found.at == std::vector<std::size_t>{1, 1, 4, 2});
  CHECK(found.worst_head == 1u);
  CHECK(found.count == theirs.count());
}

TEST_CASE("a comparison of other shapes is refused") {
  const Layer layer = sizes();
  CHECK_THROWS_WITH(mha::compare(layer, Stage::q, filled(layer, Stage::head_out, 1),
                                 filled(layer, Stage::q, 1), {}),
                    "q is (2, 3, 6), not (2, 3, 5)");
  CHECK_THROWS_WITH(mha::compare(layer, Stage::q, filled(layer, Stage::q, 1),
                                 filled(layer, Stage::head_out, 1), {}),
                    "the reference: q is (2, 3, 6), not (2, 3, 5)");
}
