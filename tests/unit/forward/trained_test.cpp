#include "support/compare.hpp"
#include "support/files.hpp"
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

// The trained models of data/: every stage that PyTorch computed in float32 when they were made.

namespace {

void require_same(const std::string& folder, std::size_t layers) {
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    mha::Request request;
    request.sources = {in_source(folder),
                       "X=" + in_source(folder + "/hidden.npz") + ":layers." + number};
    request.layer = number;
    request.settings = {{"causal", "true"}};
    const mha::Sources model(request);
    REQUIRE(model.chosen() == std::vector<std::string>{number});
    const mha::Layer layer = model.load(number).layer;
    const mha::io::Contents expected =
        mha::io::open(in_source(folder + "/expected/layer" + number + ".npz"));
    std::vector<mha::Stage> stages;
    for (const mha::io::Entry& entry : expected.tensors)
      stages.push_back(mha::stage_named(entry.name));
    CHECK(stages.size() >= 8);
    const mha::Trace trace = mha::trace(layer, stages);
    for (const mha::io::Entry& entry : expected.tensors) {
      INFO(folder << " layer " << i << " " << entry.name);
      const mha::Tensor want = entry.read();
      CHECK(compare(trace.value(mha::stage_named(entry.name)), want,
                    1e-5 + 2e-6 * magnitude(want)) == "");
    }
  }
}

} // namespace

TEST_CASE("both layers of the induction model are as PyTorch computed them") {
  require_same("data/induction", 2);
}

TEST_CASE("the four layers of the Shakespeare model are as PyTorch computed them") {
  require_same("data/shakespeare", 4);
}
