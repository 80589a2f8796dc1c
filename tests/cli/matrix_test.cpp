// Every command × every kind of input × its outcomes: tests/matrix. Under sanitizers, too: CI runs
// it so, every fifth of them, with the longest searches of `diagnose` on one family.

#include "support/places.hpp"
#include "support/run.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

TEST_CASE("matrix: every command on every kind of input, with each outcome") {
  const Result result =
      shell("/usr/bin/python3 tests/matrix/run.py \"$MHA\" --starter '" + starter_path() + "'" +
            (sanitized ? " --searches llama --share 5" : ""));
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains(" runs of ") && Contains(", 0 finds"));
  WARN(result.out); // how many they were, and how long they took
}

TEST_CASE("matrix: a command without a row fails") {
  const Folder folder;
  const std::string program = folder.write(
      "program", "#!/bin/sh\nprintf 'x\\n\\nCommands\\n  info  a\\n  novel  b\\n\\n'\n");
  REQUIRE(shell("chmod +x '" + program + "'").code == 0);
  const Result result = shell("/usr/bin/python3 tests/matrix/run.py '" + program + "'");
  CHECK(result.code == 1);
  CHECK_THAT(result.out, Contains("novel is listed by the program, and has no row") &&
                             !Contains("info is listed"));
}
