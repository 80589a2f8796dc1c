// hostile.py in small: what drawn files, names, links, devices, outputs and settings do to every
// command. By hand with more: python3 tests/hostile.py build/dev/app/mha-inspect 20000

#include "support/places.hpp"
#include "support/run.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;

TEST_CASE(
    "hostile: nothing outside the output's place changes, and one message says what is wrong") {
  if (sanitized || !have_tool("python3")) return; // sanitizers take more memory than is allowed
  const Result result = shell("python3 tests/hostile.py \"$MHA\" 150 1");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}
