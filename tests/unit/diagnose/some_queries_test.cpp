#include <mha/diagnose/some_tokens.hpp>

#include "support/compare.hpp"
#include "support/library_input.hpp"
#include "support/sanitizers.hpp"
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/layer/graph.hpp>

#include <catch2/catch.hpp>

using namespace mha;

TEST_CASE("some queries of a layer have the values that they have among all", "[diagnose]") {
  for (std::uint64_t seed = 0; seed < 150 / one_of; ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 2, 7), false);
    Layer layer = library_layer(random.layer, random.form);
    layer.settings.columns = false, layer.dims.batched = true;
    std::vector<std::size_t> rows;
    for (std::size_t t = seed % 3; t < layer.dims.T; t += 2) rows.push_back(t);
    if (rows.empty()) continue;
    for (const Stage stage : {Stage::scores, Stage::masked, Stage::weights, Stage::head_out,
                              Stage::output, Stage::residual}) {
      if (!contains(available_stages(layer), stage)) continue;
      const Tensor all = value_of(layer, stage);
      const Tensor some = value_of(some_queries(layer, rows, stage), stage);
      INFO(random.description << " " << name_of(stage) << " seed " << seed);
      CHECK(compare(some, some_queries(stage, all, rows), 1e-12 * (1 + magnitude(all))) == "");
    }
  }
}
