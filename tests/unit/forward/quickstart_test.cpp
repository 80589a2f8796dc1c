#include "support/compare.hpp"
#include "support/files.hpp"
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>

// data/quickstart.json by hand. Three words of four features (article, noun, verb, always 1), two
// heads of two numbers. The scale is ln 2, so that exp(scaled) = 2^score and every weight is a
// plain fraction: a row of scores 1 0 0 weighs 2 : 1 : 1.

namespace {

mha::Tensor numbers(const mha::Shape& shape, std::vector<double> values) {
  return mha::Tensor::of<double>(shape, values);
}

} // namespace

TEST_CASE("the quick start's numbers are those on paper") {
  mha::Request request;
  request.sources = {in_source("data/quickstart.json")};
  const mha::Sources model(request);
  const mha::Layer layer = model.load(model.chosen()[0]).layer;
  CHECK(layer.tokens == std::vector<std::string>{"the", "cat", "sat"});
  CHECK(layer.dtype == mha::DType::f64);
  CHECK_FALSE(layer.settings.causal);

  const double ln2 = std::log(2.0);
  using enum mha::Stage;
  // clang-format off
  const std::map<mha::Stage, mha::Tensor> expected{
      {x, numbers({3, 4}, {1, 0, 0, 1,
                           0, 1, 0, 1,
                           0, 0, 1, 1})},

      // X has a single 1 among the first three features, so a projection picks that row of W,
      // and adds the last row: zero in W_q and W_k.
      {q, numbers({2, 3, 2}, {0, 0,   // head 0: the asks for nothing,
                              1, 0,   //         cat for its article,
                              0, 2,   //         sat, twice as much, for its noun
                              1, 0,   // head 1
                              0, 1,
                              1, 1})},
      {k, numbers({2, 3, 2}, {1, 0,   // head 0: the is an article, cat a noun, sat neither
                              0, 1,
                              0, 0,
                              1, 0,   // head 1: the same numbers as its q
                              0, 1,
                              1, 1})},
      // The last row of W_v adds 0.5 to the last number.
      {v, numbers({2, 3, 2}, {1, 0,
                              0, 2,
                              1, 1,
                              0, 1.5,  // 1 + 0.5
                              1, 0.5,
                              2, 0.5})},

      // q · k: cat and the 1·1 + 0·0 = 1; sat and cat 0·0 + 2·1 = 2; in head 1 sat and sat 1 + 1 = 2.
      {scores, numbers({2, 3, 3}, {0, 0, 0,
                                   1, 0, 0,
                                   0, 2, 0,
                                   1, 0, 1,
                                   0, 1, 1,
                                   1, 1, 2})},
      {scaled, numbers({2, 3, 3}, {0, 0, 0,
                                   ln2, 0, 0,
                                   0, 2 * ln2, 0,
                                   ln2, 0, ln2,
                                   0, ln2, ln2,
                                   ln2, ln2, 2 * ln2})},
      // Nothing is masked.
      {masked, numbers({2, 3, 3}, {0, 0, 0,
                                   ln2, 0, 0,
                                   0, 2 * ln2, 0,
                                   ln2, 0, ln2,
                                   0, ln2, ln2,
                                   ln2, ln2, 2 * ln2})},

      {row_max, numbers({2, 3}, {0, ln2, 2 * ln2,
                                 ln2, ln2, 2 * ln2})},
      {shifted, numbers({2, 3, 3}, {0, 0, 0,
                                    0, -ln2, -ln2,
                                    -2 * ln2, 0, -2 * ln2,
                                    0, -ln2, 0,
                                    -ln2, 0, 0,
                                    -ln2, -ln2, 0})},
      // exp(−ln 2) = 1/2, exp(−2 ln 2) = 1/4.
      {exp, numbers({2, 3, 3}, {1, 1, 1,
                                1, 0.5, 0.5,
                                0.25, 1, 0.25,
                                1, 0.5, 1,
                                0.5, 1, 1,
                                0.5, 0.5, 1})},
      {row_sum, numbers({2, 3}, {3, 2, 1.5,
                                 2.5, 2.5, 2})},
      // row_max + ln row_sum = ln Σ 2^score: 1 + 1 + 1, 2 + 1 + 1, 1 + 4 + 1; 2 + 1 + 2, 1 + 2 + 2, 2 + 2 + 4.
      {logsumexp, numbers({2, 3}, {std::log(3), std::log(4), std::log(6),
                                   std::log(5), std::log(5), std::log(8)})},
      {weights, numbers({2, 3, 3}, {1.0 / 3, 1.0 / 3, 1.0 / 3,
                                    0.5, 0.25, 0.25,           // 1/2 : 0.5/2
                                    1.0 / 6, 2.0 / 3, 1.0 / 6, // 0.25/1.5 : 1/1.5
                                    0.4, 0.2, 0.4,             // 1/2.5 : 0.5/2.5
                                    0.2, 0.4, 0.4,
                                    0.25, 0.25, 0.5})},

      {head_out, numbers({2, 3, 2}, {
          // head 0, v = (1, 0), (0, 2), (1, 1)
          2.0 / 3, 1,     // (1 + 0 + 1) / 3, (0 + 2 + 1) / 3
          0.75, 0.75,     // 1/2·1 + 1/4·1,   1/4·2 + 1/4·1
          1.0 / 3, 1.5,   // 1/6·1 + 1/6·1,   2/3·2 + 1/6·1
          // head 1, v = (0, 1.5), (1, 0.5), (2, 0.5)
          1, 0.9,         // 0.2·1 + 0.4·2,   0.4·1.5 + 0.2·0.5 + 0.4·0.5
          1.2, 0.7,       // 0.4·1 + 0.4·2,   0.2·1.5 + 0.4·0.5 + 0.4·0.5
          1.25, 0.75})},  // 0.25·1 + 0.5·2,  0.25·1.5 + 0.25·0.5 + 0.5·0.5
      {concat, numbers({3, 4}, {2.0 / 3, 1, 1, 0.9,
                                0.75, 0.75, 1.2, 0.7,
                                1.0 / 3, 1.5, 1.25, 0.75})},

      // Head 0 goes through the first two rows of W_o, (1, 0, 0, 0) and (0, 1, 0, 1),
      // head 1 through the last two, (0, 0, 1, 0) and (2, 0, 0, 1).
      {head_result, numbers({2, 3, 4}, {2.0 / 3, 1, 0, 1,
                                        0.75, 0.75, 0, 0.75,
                                        1.0 / 3, 1.5, 0, 1.5,
                                        1.8, 0, 1, 0.9,
                                        1.4, 0, 1.2, 0.7,
                                        1.5, 0, 1.25, 0.75})},
      // Their sum: there is no b_o.
      {output, numbers({3, 4}, {2.0 / 3 + 1.8, 1, 1, 1.9,
                                2.15, 0.75, 1.2, 1.45,
                                1.0 / 3 + 1.5, 1.5, 1.25, 2.25})},
  };
  // clang-format on

  std::vector<mha::Stage> stages;
  for (const auto& [stage, values] : expected) stages.push_back(stage);
  const mha::Trace trace = mha::trace(layer, stages);
  for (const auto& [stage, values] : expected) {
    INFO(name_of(stage));
    CHECK(compare(trace.value(stage), values, 1e-14) == "");
  }
}
