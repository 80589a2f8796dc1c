// The bar: on a terminal, for work that takes longer than a second, and nowhere else. Time flies
// here: every look at the clock is so many milliseconds later.

#include "support/places.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

using namespace mha::test;
using Catch::Contains;

namespace {

const std::string all_layers =
    "\"$MHA\" show data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
    "-s output -f csv";

/// What a terminal gets of a line whose standard output goes to a file.
std::string on_terminal(const std::string& line, int step, const std::string& term = "xterm") {
  const Result result = shell("script -qec 'stty cols 90; env LD_PRELOAD=\"$SHIM\" FAULT_CLOCK=" +
                                  std::to_string(step) + " sh -c \"$LINE > /dev/null\"' /dev/null",
                              {.env = {{"TERM", term}, {"SHIM", faults_path()}, {"LINE", line}}});
  CHECK(result.code == 0);
  return result.out;
}

} // namespace

TEST_CASE("progress: a bar on a terminal tells the rate and the time left, and goes") {
  if (sanitized) return;
  const std::string text = on_terminal(all_layers, 300);
  CHECK_THAT(text,
             Contains(" % · ") && Contains(" GFLOP/s · ") && Contains(" s left · layer 2 of 2"));
  CHECK_THAT(text, Contains("\r━") && Contains("╌"));
  CHECK_THAT(text, Catch::EndsWith("\r\x1b[K"));
  // A line is never wider than the terminal: that would scroll.
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("progress: nothing within a second, in a pipe, with --quiet, on a dumb terminal") {
  if (sanitized) return;
  CHECK(on_terminal(all_layers, 1).empty());
  CHECK(on_terminal(all_layers + " --quiet", 300).empty());
  CHECK(on_terminal(all_layers, 300, "dumb").empty());
  CHECK(on_terminal(all_layers + " 2>&1 | cat", 300).empty());
  CHECK_THAT(on_terminal("\"$MHA\" bench data/quickstart.json --repeat 50", 300),
             !Contains("GFLOP/s"));
}
