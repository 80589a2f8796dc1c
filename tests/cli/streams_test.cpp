// Pipes without an end: each is refused once it exceeds a limit that the message states, or as
// soon as it is clearly of no format.

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

/// The program with at most 1 GiB of memory: what is read of a pipe is bounded long before.
Result bounded(const std::string& line) {
  return shell((sanitized ? "" : "ulimit -v 1000000; ") + line);
}

void refuses(const std::string& line, const std::string& words) {
  const Result result = bounded(line);
  INFO(line << "\n" << result.err);
  CHECK(result.code != 0);
  CHECK(one_line(result.err));
  CHECK_THAT(result.err, Contains(words));
}

} // namespace

TEST_CASE("pipes: what is of no format is refused after its beginning") {
  refuses("\"$MHA\" info - < <(cat /dev/zero)", "unsupported file format");
  refuses("yes | \"$MHA\" show -; exit ${PIPESTATUS[1]}", "unsupported file format");
  refuses("\"$MHA\" show X=<(cat /dev/zero) data/quickstart.json", "unsupported file format");
  refuses("\"$MHA\" diff data/quickstart.json --against <(cat /dev/zero)",
          "unsupported file format");
  refuses("\"$MHA\" predict data/bard-gpt2 --ids <(yes a,b)", "unsupported file format");
}

TEST_CASE("pipes: texts, labels and configs have a limit") {
  if (!sanitized) // half a gigabyte
    refuses("\"$MHA\" predict data/bard-gpt2 --ids <(yes 1,2)",
            "is longer than 488 MiB, the most that is read from a pipe for tensors");
  const std::string limit = "is longer than 64 MiB, the most that is read from a pipe for a text";
  refuses("\"$MHA\" tokens data/bard-gpt2 --text-file <(yes)", limit);
  refuses("\"$MHA\" predict data/bard-gpt2 --text-file - < <(cat /dev/zero)", limit);
  refuses("\"$MHA\" show data/quickstart.json --tokens <(yes)", limit);
  refuses("\"$MHA\" show data/quickstart.json --config <(yes)", limit);
}

TEST_CASE("pipes: raw bytes are as many as their shape says") {
  refuses("\"$MHA\" show q=<(cat /dev/zero):f32[2,3,4]",
          "is longer than 96 bytes, the most that is read from a pipe for float32 of (2, 3, 4)");
  const Result exact = bounded("\"$MHA\" show q=<(head -c 96 /dev/zero):f32[2,3,4] -s q -f csv");
  INFO(exact.err);
  CHECK(exact.code == 0);
}

TEST_CASE("pipes: tensors that go on without end are refused by their size") {
  if (sanitized) return; // they have no limit of memory
  refuses("\"$MHA\" info <(printf '{\"X\": ['; yes '1,')",
          "the most that is read from a pipe for tensors");
}

TEST_CASE("pipes: a whole one is read as ever") {
  const Result shown = shell("cat data/quickstart.json | \"$MHA\" show -");
  CHECK(shown.code == 0);
  CHECK(shell("\"$MHA\" show <(cat data/quickstart.json)").code == 0);
  CHECK(shell("\"$MHA\" tokens data/bard-gpt2 --text-file <(printf 'To be')").out ==
        run({"tokens", "data/bard-gpt2", "--text", "To be"}).out);
  CHECK(shell("\"$MHA\" show data/quickstart.json --tokens <(printf 'a\\nb\\nc\\n')").code == 0);
}
