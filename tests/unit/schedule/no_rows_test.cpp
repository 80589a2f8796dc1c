#include <mha/mha.hpp>

#include <catch2/catch.hpp>

#include <vector>

// Layers without queries or without keys: every stage is empty or made of what is left, however
// many threads there are.

using namespace mha;

namespace {

Tensor ones(Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  for (float& x : tensor.as_mutable<float>()) x = 1;
  return tensor;
}

} // namespace

TEST_CASE("no rows: nothing is multiplied for no queries or no keys, on any number of threads") {
  constexpr std::size_t width = 128;
  const auto layer_of = [&](std::size_t queries, std::size_t keys, bool past) {
    Tensors tensors{{"X", ones({queries, width})}, {"X_kv", ones({keys, width})},
                    {"W_q", ones({width, width})}, {"W_k", ones({width, width})},
                    {"W_v", ones({width, width})}, {"W_o", ones({width, width})}};
    if (past)
      for (const char* name : {"k_past", "v_past"}) tensors.emplace_back(name, ones({2, 3, 64}));
    Settings settings;
    settings.num_heads = 2;
    return layer(std::move(tensors), settings);
  };
  for (const std::size_t threads : {1U, 2U, 8U})
    for (const bool past : {false, true}) {
      INFO(threads << " threads" << (past ? ", past keys" : ""));
      CHECK(run(layer_of(0, 5, past), {Stage::output}, threads).tensor("output").count() == 0);
      const Tensor output = run(layer_of(5, 0, past), {Stage::output}, threads).tensor("output");
      REQUIRE(output.shape() == Shape{5, width});
      for (const float x : output.as<float>()) CHECK(x == (past ? 128.0F : 0.0F));
    }
}
