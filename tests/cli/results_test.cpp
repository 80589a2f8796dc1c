// Every result over random checkpoints of every trait that models have, beside NumPy's in float64
// (tests/models/results.py, which runs all of them over every family by hand).

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

TEST_CASE("every result of random checkpoints is NumPy's, or refused by name", "[model]") {
  // What starts slowly under the sanitizers is run on the models that have most steps.
  const std::string models = sanitized ? " --model gemma2 --model opt-350m --model way-sinks" : "";
  const Result result = shell("/usr/bin/python3 tests/models/results.py \"$MHA\" --some" + models);
  if (result.err.find("No module named 'numpy'") != std::string::npos) {
    WARN("no NumPy, so nothing to compare with: " << result.err);
    return;
  }
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains(" refused by name, 0 wrong"));
}
