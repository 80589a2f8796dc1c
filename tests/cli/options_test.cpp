// Every option of every command takes every kind of value that its help names: tests/matrix.

#include "support/places.hpp"
#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

TEST_CASE("options: each takes every kind of value that its help names, on every command") {
  const Result result = shell("/usr/bin/python3 tests/matrix/options.py \"$MHA\" --starter '" +
                              starter_path() + "'" + (sanitized ? " --share 7" : ""));
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains(" of 18 commands in ") && Contains(", 0 finds"));
}

TEST_CASE("options: M-RoPE's sections can be given") {
  const Folder folder;
  const std::string positions = folder.write("positions.json", "[[0, 1, 2], [0, 0, 5], [0, 3, 0]]");
  const auto turned = [&](const std::string& sections) {
    return run({"show", "data/quickstart.json", "--rope", "half", "--mrope-section", sections,
                "positions=" + positions, "-s", "q_rope", "-f", "csv"});
  };
  const auto by = [&](const std::string& offsets) {
    const std::string one = folder.write("one.json", offsets);
    return run({"show", "data/quickstart.json", "--rope", "half", "positions=" + one, "-s",
                "q_rope", "-f", "csv"})
        .out;
  };
  CHECK(turned("1,0,0").out == by("[0, 1, 2]")); // heads of two numbers have one pair
  CHECK(turned("0,1,0").out == by("[0, 0, 5]"));
  CHECK(turned("0,0,1").out == by("[0, 3, 0]"));
  CHECK_THAT(turned("1,0").err, Contains("three numbers, 16,24,24, or none expected"));
  CHECK_THAT(turned("1,0,x").err, Contains("a number expected"));
}
