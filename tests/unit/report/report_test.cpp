#include <mha/explain/explain.hpp>
#include <mha/report/report.hpp>

#include "support/library_input.hpp"

#include <catch2/catch.hpp>

#include <cmath>

using namespace mha;
using Catch::Contains;

namespace {

Layer layer_of(std::uint64_t seed, const std::vector<Variant>& variants,
               const Limits& limits = {}) {
  const RandomLayer random = random_layer(seed, variants, false, limits);
  return library_layer(random.layer, random.form);
}

} // namespace

TEST_CASE("report: what heads add is what explain says, query by query", "[report]") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Variant> variants{Variant::gqa, Variant::causal, Variant::rope_interleaved};
    if (seed == 3) variants.push_back(Variant::columns);
    const Layer layer = layer_of(seed, variants);
    for (std::size_t b = 0; b < layer.dims.B; ++b) {
      ReportRequest request;
      request.batch = b;
      const LayerReport report = mha::report(layer, request);
      REQUIRE(report.contributions.size() == layer.dims.H);
      for (std::size_t t = 0; t < layer.dims.T; ++t) {
        const Explanation explanation = explain(layer, {b, t, std::nullopt});
        CHECK(static_cast<double>(report.output_norm[t]) ==
              Approx(norm_of(explanation.values.at(Stage::output))).epsilon(1e-6));
        for (std::size_t h = 0; h < layer.dims.H; ++h) {
          const HeadExplanation& head = explanation.heads[h];
          CHECK(static_cast<double>(report.contributions[h].norm[t]) ==
                Approx(norm_of(head.values.at(Stage::head_result))).epsilon(1e-6));
          CHECK(static_cast<double>(report.contributions[h].share[t]) ==
                Approx(head.share.value()).epsilon(1e-5).margin(1e-6));
        }
      }
    }
  }
}

TEST_CASE("report: the forms of the keys and values that scores and head_out read", "[report]") {
  const LayerReport report =
      mha::report(layer_of(4, {Variant::rope_half, Variant::past, Variant::gqa}), {});
  CHECK(report.forms.at("q") == Stage::q_rope);
  CHECK(report.forms.at("k") == Stage::k_all);
  CHECK(report.forms.at("v") == Stage::v_all);
  CHECK(report.keys[0] == "[past 0]");
  CHECK(report.stages.at("k").rows == report.dims.S_all);
  REQUIRE(report.kv_of.size() == report.dims.H);
  CHECK(report.kv_of.back() == report.dims.H_kv - 1);
  // Where a bias stands between scores and masked, both are there; else one tells the other.
  CHECK(report.stages.count("scores") == 0);
  CHECK(mha::report(layer_of(4, {Variant::alibi_paper}), {}).stages.count("scores") == 1);
}

TEST_CASE("report: what does not fit is rounded, then left out; weights last", "[report]") {
  // Sizes are drawn: the first seed that gives a long one.
  const auto long_layer = [] {
    for (std::uint64_t seed = 1;; ++seed)
      if (Layer layer = layer_of(seed, {Variant::causal}, {.tokens = 400, .heads = 2});
          layer.dims.T > 300)
        return layer;
  };
  const Layer layer = long_layer();
  const auto with_limit = [&](std::size_t limit) {
    ReportRequest request;
    request.limit = limit;
    return mha::report(layer, request);
  };
  const auto packed = [](const LayerReport& report) {
    std::size_t bytes = 0;
    for (const auto& [name, stage] : report.stages)
      for (const std::string& head : stage.heads) bytes += head.size();
    return bytes;
  };
  const std::size_t cells = layer.dims.H * layer.dims.T * layer.dims.S_all;
  const LayerReport large = with_limit(cells * 40);
  CHECK(large.stages.at("weights").form == RowForm::exact);
  CHECK(large.stages.at("q").form == RowForm::rounded);
  CHECK(large.stages.count("head_out") == 0); // the page adds it up
  CHECK(large.visible.size() == layer.dims.T);
  const LayerReport middle = with_limit(cells * 4);
  CHECK(middle.stages.at("weights").form == RowForm::rounded);
  CHECK(middle.stages.count("masked") == 0);
  CHECK(middle.visible == large.visible);
  CHECK(packed(middle) <= cells * 4);
  const LayerReport small = with_limit(cells);
  CHECK(small.stages.at("weights").form == RowForm::largest);
  CHECK(small.stages.at("weights").kept > 0);
  CHECK(small.stages.count("pooled") == 1);
  CHECK(packed(small) <= cells);
  CHECK(packed(small) > cells / 2); // as many as fit, not as few as may have to do
  CHECK_THROWS_WITH(with_limit(1000), Contains("do not fit") && Contains("max_size"));
}

TEST_CASE("report: given weights and a given concatenation are a layer, too", "[report]") {
  NamedTensors parts;
  parts["weights"].tensor =
      Tensor::of<double>({2, 2, 2}, std::vector<double>{1, 0, .5, .5, 1, 0, 0, 1});
  parts["concat"].tensor = Tensor::of<double>({2, 2}, std::vector<double>{3, 0, 1, 4});
  parts["W_o"].tensor = Tensor::of<double>({2, 2}, std::vector<double>{1, 0, 0, 1});
  const LayerReport report = mha::report(make_layer(parts, {}), {});
  REQUIRE(report.contributions.size() == 2);
  CHECK(report.contributions[0].norm == std::vector<float>{3, 1});
  CHECK(report.contributions[1].norm == std::vector<float>{0, 4});
  CHECK(report.contributions[1].share[0] == 0);
}

TEST_CASE("report: fails where there are no weights to show", "[report]") {
  Layer layer;
  layer.dims.T = 3;
  CHECK_THROWS_WITH(mha::report(layer, {}), Contains("nothing to show"));
}
