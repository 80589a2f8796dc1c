#include <mha/mha.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

// A layer of one query with earlier keys, as of a token that is generated: heads that share keys
// are computed together, and earlier keys are read where they were given, to the bits of heads
// computed one by one and of keys that were copied.

using namespace mha;

namespace {

Tensor drawn(DType dtype, Shape shape, unsigned seed) {
  Tensor numbers(DType::f64, std::move(shape));
  std::uint64_t state = seed * 7919 + 1;
  for (double& x : numbers.as_mutable<double>()) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    x = static_cast<double>(state >> 40) / double(1 << 23) - 1;
  }
  return convert(numbers, dtype);
}

constexpr std::size_t H = 15, H_kv = 3, d_k = 7, d_v = 5, d_model = 11, P = 700;

Layer one_query(DType dtype, int window) {
  Tensors tensors{{"X", drawn(dtype, {1, d_model}, 1)},
                  {"W_q", drawn(dtype, {d_model, H * d_k}, 2)},
                  {"W_k", drawn(dtype, {d_model, H_kv * d_k}, 3)},
                  {"W_v", drawn(dtype, {d_model, H_kv * d_v}, 4)},
                  {"W_o", drawn(dtype, {H * d_v, d_model}, 5)},
                  {"k_past", drawn(dtype, {H_kv, P, d_k}, 6)},
                  {"v_past", drawn(dtype, {H_kv, P, d_v}, 7)}};
  Settings settings;
  settings.num_heads = H, settings.num_kv_heads = H_kv, settings.causal = true;
  settings.window_left = window;
  return layer(std::move(tensors), settings);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

} // namespace

TEST_CASE("one query: heads together and keys in place have the bits of heads alone and copies") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int window : {-1, 64}) {
      INFO(name_of(dtype) << ", window " << window);
      const Layer given = one_query(dtype, window);
      // head_result keeps heads apart; k_all and v_all that are kept are copies.
      const auto alone = run(given,
                             {Stage::weights, Stage::logsumexp, Stage::head_out, Stage::head_result,
                              Stage::k_all, Stage::v_all, Stage::output},
                             1);
      for (const std::size_t threads : {1U, 2U, 5U})
        for (const std::vector<Stage>& kept :
             {std::vector{Stage::output}, std::vector{Stage::weights, Stage::logsumexp},
              std::vector{Stage::head_out, Stage::weights, Stage::output}}) {
          const auto together = run(given, kept, threads);
          for (const Stage stage : kept) {
            INFO(name_of(stage) << " on " << threads << " threads");
            CHECK(same_bits(together.tensor(name_of(stage)), alone.tensor(name_of(stage))));
          }
        }
      // weights are those of q kᵀ / √d_k over the keys that the window leaves.
      const Tensor weights = alone.tensor("weights");
      const std::size_t first = window < 0 ? 0 : P - static_cast<std::size_t>(window);
      double sum = 0;
      for (std::size_t j = 0; j <= P; ++j) {
        const double weight = value_at(weights, 4 * (P + 1) + j);
        CHECK((weight > 0) == (j >= first));
        sum += weight;
      }
      CHECK(sum == Approx(1).epsilon(1e-5));
    }
}

TEST_CASE("one query: a hidden value that is no number is multiplied, as every key is") {
  Layer given = one_query(DType::f32, 64);
  const auto clean = run(given, {Stage::output}, 2).tensor("output");
  Tensor v_past = Tensor::uninitialised(DType::f32, given.v_past.shape());
  std::memcpy(v_past.raw_mutable(), given.v_past.raw(), v_past.bytes());
  v_past.as_mutable<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  given.v_past = v_past;
  // 0 · NaN is NaN, as in frameworks that multiply every key.
  CHECK(std::isnan(value_at(run(given, {Stage::output}, 2).tensor("output"), 0)));
  CHECK(!std::isnan(value_at(clean, 0)));
}
