// The programs of docs/example, built in the tree: with sanitizers where the tests are.

#include "support/places.hpp"
#include "support/tools.hpp"

#include <fmt/format.h>

#include <algorithm>

using namespace mha::test;
using Catch::Contains;

namespace {

Result example(const std::string& line) {
  return shell(fmt::format("'{}'/tests/example/{}", build_folder(), line));
}

const std::string induction = " data/induction 1 hidden.npz:layers.1";

} // namespace

TEST_CASE("example: vectors in, the weights of each head out") {
  const Result result = example("weights");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("head 0\n{{ 1.") && Contains("head 1\n{{ 1."));
}

TEST_CASE("example: a checkpoint, every stage") {
  const Result result = example("stages" + induction);
  CHECK(result.code == 0);
  for (const char* stage : {"x (33, 64), ", "weights (", "head_result (", "output ("})
    CHECK_THAT(result.out, Contains(stage));
  CHECK_THAT(result.out, Contains("weights (4, 33, 33), largest 1\n"));
}

TEST_CASE("example: the entropy of each head, streamed") {
  const Result result = example("entropy" + induction);
  CHECK(result.code == 0);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 4);
}

TEST_CASE("example: patch and run again") {
  const Result result = example("patch" + induction);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::StartsWith("the output moves by up to "));
}

TEST_CASE("example: a model run many times") {
  const std::string words = " data/bard-gpt2 'To be, or not to be' ";
  const Result ablate = example("ablate" + words + "3");
  CHECK(ablate.code == 0);
  CHECK(std::count(ablate.out.begin(), ablate.out.end(), '\n') == 6);
  CHECK_THAT(ablate.out, Catch::StartsWith("0 +0.0940\n"));
  CHECK_THAT(example("ablate" + words + "4").err, Contains("there is no layer '4'"));
  const Result steer = example("steer" + words + "'The king is dead'");
  CHECK(steer.code == 0);
  const std::size_t end = steer.out.find('\n');
  CHECK(steer.out.substr(0, end) != steer.out.substr(end + 1, end));
  const Result probe = example("probe" + words + "'To be, or not to be'");
  CHECK(probe.out == "0 1\n1 1\n2 1\n3 1\n4 1\n");
  const Result serve = shell(
      fmt::format("printf 'To be\\nThe king\\nTo be\\n' | '{}'/tests/example/serve data/bard-gpt2",
                  build_folder()));
  CHECK(serve.code == 0);
  CHECK(serve.out == "a\n,\na\n");
}

TEST_CASE("example: misuse is one line that says what there is") {
  for (const char* name : {"stages", "entropy", "patch"}) {
    const Result none = example(name);
    CHECK(none.code == 1);
    CHECK(none.err == "a checkpoint, a layer and where its X is expected\n");
    const Result layer = example(fmt::format("{} data/induction 9 hidden.npz:layers.1", name));
    CHECK(layer.code == 1);
    CHECK(layer.err == "layer 9: there is no layer 9; the layers are 0, 1\n");
    const Result input = example(fmt::format("{} data/induction 1 hidden.npz:layers.7", name));
    CHECK(input.code == 1);
    CHECK(one_line(input.err));
    CHECK_THAT(input.err, Contains("layers.1") && !Contains("--"));
  }
}
