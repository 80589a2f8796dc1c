#include "support/emulated_amx.hpp"
#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/routine.hpp>
#include <mha/layer/block.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/weight.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

// Linear maps around attention: cut by columns, or, where many rows are split, by rows.

using namespace mha;

namespace {

Tensor drawn(std::mt19937& rng, Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  std::normal_distribution<float> normal;
  for (float& x : tensor.as_mutable<float>()) x = normal(rng);
  return tensor;
}

/// The first `rows` rows of x, through the map: mlp_pre of a block that gets them as its residual.
std::vector<float> through(Routine routine, const Tensor& x, std::size_t rows,
                           const LinearMap& linear, std::size_t threads) {
  const std::size_t in = linear.in();
  Layer layer;
  Dims& dims = layer.dims;
  dims.T = dims.S = dims.S_all = rows;
  dims.d_model = dims.d_out = in, dims.d_ff = linear.out();
  TransformerBlock block;
  block.mlp.in = linear;
  block.mlp.out.W = Tensor(DType::f32, {linear.out(), in});
  layer.block = std::make_shared<const TransformerBlock>(std::move(block));
  layer.given[index_of(Stage::residual)] =
      Tensor::of<float>({1, rows, in}, std::span(x.as<float>().data(), rows * in));
  layer.given_set.add(Stage::residual);
  set_routine(routine);
  const Tensor y = trace(layer, {Stage::mlp_pre}, {}, threads).value(Stage::mlp_pre);
  set_routine({});
  const std::span<const float> numbers = y.as<float>();
  return {numbers.begin(), numbers.end()};
}

} // namespace

TEST_CASE("linear maps: an element's bits are its row's and column's, however they are cut") {
  const WithBf16x3 tiles;
  std::mt19937 rng(3);
  const std::size_t rows = bf16x3_as_read + 45, in = 70, out = 130;
  const Tensor x = drawn(rng, {rows, in});
  for (const bool out_in : {false, true})
    for (const DType stored : {DType::f32, DType::bf16, DType::f16})
      for (const Routine routine : {Routine::fma, Routine::bf16x3}) {
        LinearMap linear;
        const Tensor matrix = convert(drawn(rng, out_in ? Shape{out, in} : Shape{in, out}), stored);
        linear.W = out_in ? transposed_when_read(matrix) : matrix;
        linear.b = drawn(rng, {out});
        const std::vector<float> few = through(routine, x, 64, linear, 1);
        const std::vector<float> all = through(routine, x, rows, linear, 1);
        CAPTURE(out_in, name_of(stored), routine == Routine::fma);
        CHECK(std::memcmp(few.data(), all.data(), few.size() * sizeof(float)) == 0);
        for (const std::size_t threads : {2u, 5u})
          CHECK(through(routine, x, rows, linear, threads) == all);
        // Against the sums in double.
        const Tensor W = convert(linear.W, DType::f64);
        double worst = 0;
        for (std::size_t t = 0; t < rows; t += 37)
          for (std::size_t j = 0; j < out; ++j) {
            double sum = static_cast<double>(linear.b.as<float>()[j]);
            for (std::size_t k = 0; k < in; ++k)
              sum += static_cast<double>(x.as<float>()[t * in + k]) * W.as<double>()[k * out + j];
            worst = std::max(worst, std::abs(sum - static_cast<double>(all[t * out + j])));
          }
        CHECK(worst < 1e-4);
      }
}

TEST_CASE("kept weights: passes under edits read the model's forms and leave none behind") {
  std::mt19937 rng(5);
  const auto kept = std::make_shared<KeptWeights>(std::size_t(1) << 30);
  const auto known = KeptWeights::known_of(kept);
  const Tensor own = drawn(rng, {64, 128});
  CHECK(!known->packed<float>(Routine::fma, own, 1));
  CHECK(!kept->packed<float>(Routine::fma, own, 1));
  CHECK(!known->packed<float>(Routine::fma, own, 1)); // read once: not packed yet
  const auto form = kept->packed<float>(Routine::fma, own, 1);
  REQUIRE(form);
  CHECK(known->packed<float>(Routine::fma, own, 1) == form);
  const std::size_t of_one = kept->bytes();
  for (int edit = 0; edit < 8; ++edit) {
    const Tensor edited = drawn(rng, own.shape());
    for (int times = 0; times < 3; ++times) CHECK(!known->packed<float>(Routine::fma, edited, 1));
  }
  CHECK(kept->bytes() == of_one);
  CHECK(KeptWeights::known_of(known) == known);
  CHECK(!KeptWeights::known_of(nullptr));
}
