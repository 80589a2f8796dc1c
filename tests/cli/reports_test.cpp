// Samples of tests/reports: mistakes rebuilt from real reports, right ports, names of other code.
// By hand, all of them: /usr/bin/python3 tests/reports/run.py build/dev/app/mha-inspect

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;

namespace {

Result python(const std::string& script) {
  return shell("/usr/bin/python3 tests/reports/" + script);
}

} // namespace

TEST_CASE("reports: most mistakes of a sample are named, none is told wrongly") {
  if (sanitized) return; // dozens of runs
  const Result result =
      python("run.py \"$MHA\" --sample 12 --modes f32,'computed bf16' --jobs 2 --check");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("reports: right ports in four precisions are equal or close, and nothing is wrong") {
  if (sanitized) return;
  const Result result = python("clean.py \"$MHA\" --count 16 --jobs 2");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("reports: a right port in bfloat16 is not blamed for the scatter of its rows") {
  if (sanitized) return;
  const Result result = python("clean.py \"$MHA\" --first 187 --count 1");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("reports: stages are read under the names and axes of other code") {
  const Result result = python("names.py \"$MHA\"");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("reports: what no convention explains is not claimed") {
  if (sanitized) return;
  const Result result = python("pairs.py \"$MHA\" --pairs 8 --disturbances 8 --jobs 2 --check");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}
