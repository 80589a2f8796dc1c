// What is reported of a stage that no change explains: where it differs, and what its numbers look
// like. Each row needs the thresholds of hints.cpp that it names.

#include <mha/diagnose/diagnose.hpp>
#include <mha/naming/stage_names.hpp>

#include "support/library_input.hpp"
#include "support/planted.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

using namespace mha;

namespace {

/// Every number as 8 bits have it, of a matrix with one scale.
void quantise(reference::Array& weight) {
  double most = 0;
  for (const double w : weight.values) most = std::max(most, std::fabs(w));
  for (double& w : weight.values) w = std::round(w / most * 127) * most / 127;
}

/// Numbers of `weight`'s columns [first, last) by f, which gets the number.
template <class F>
void each_in_columns(reference::Array& weight, std::size_t first, std::size_t last, F f) {
  const std::size_t n = weight.shape.back();
  for (std::size_t i = 0; i < weight.values.size(); ++i)
    if (i % n >= first && i % n < last) weight.values[i] = f(weight.values[i]);
}

struct HintRow {
  const char* other;   ///< what the reference has that the layer has not
  bool only_output;    ///< what was saved of it; else q, too
  const char* hint;    ///< a part of a sentence
  const char* needing; ///< the thresholds
  void (*plant)(reference::Layer& layer);
};

const HintRow hint_rows[]{
    {"weights in 8 bits", false, "quantised or rounded weights",
     "differs_a_little, off_a_little, same_direction",
     [](reference::Layer& layer) {
       for (reference::Array* weight : {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o})
         quantise(*weight);
     }},
    {"weights in 8 bits, and their scale applied twice", false,
     "is 0.25 times this layer's, and off a little besides", "off_a_little, same_direction",
     [](reference::Layer& layer) {
       for (reference::Array* part : {&layer.W_q, &layer.b_q}) {
         quantise(*part);
         for (double& w : part->values) w *= 0.25;
       }
     }},
    {"other weights of q", false, "has nothing in common with this layer's", "nothing_in_common",
     [](reference::Layer& layer) {
       Random random(29);
       layer.W_q = planted::numbers(random, layer.W_q.shape, -0.6, 0.6);
       layer.b_q = planted::numbers(random, layer.b_q.shape, -1, 1);
     }},
    {"a head that counts 0.37 times", true, "as if head 1 counted 0.37 times instead of once",
     "sum_of_heads, counts_otherwise",
     [](reference::Layer& layer) {
       const std::size_t rows = layer.d_v, n = layer.W_o.shape[1];
       for (std::size_t i = rows * n; i < 2 * rows * n; ++i) layer.W_o.values[i] *= 0.37;
     }},
    {"other values of a head", true, "what differs in the output comes from head 2 alone",
     "seen_behind_product, small_behind_product, small_beside_largest, widest_joined, least_pivot",
     [](reference::Layer& layer) {
       Random random(31);
       each_in_columns(layer.W_v, 2 * layer.d_v, 3 * layer.d_v,
                       [&](double) { return random.uniform(-0.6, 0.6); });
     }},
};

} // namespace

TEST_CASE("hints: what no change explains is described", "[diagnose]") {
  const planted::Base base = planted::bases(3, false)[0];
  for (const HintRow& row : hint_rows) {
    reference::Layer other = base.layer;
    row.plant(other);
    const planted::Stages stages = reference::compute(other);
    std::vector<ReferenceStage> known;
    for (const char* name : {"q", "output"})
      if (!row.only_output || std::string_view(name) == "output")
        known.push_back(
            {stage_named(name), tensor_of(stages.at(name), DType::f64), DType::f64, "", ""});
    const Diagnosis d = diagnose(library_layer(base.layer, base.form), known, false, 1);
    std::string all;
    for (const std::string& hint : d.hints) all += hint + "\n";
    INFO(row.other << ", which needs " << row.needing << ": " << all);
    CHECK_FALSE(d.explained);
    CHECK_THAT(all, Catch::Contains(row.hint));
  }
}
