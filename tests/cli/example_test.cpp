// The programs of docs/example, built in the tree: with sanitizers where the tests are.

#include "support/files.hpp"
#include "support/places.hpp"
#include "support/run.hpp"
#include "support/tools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

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

TEST_CASE("example: a layer of the core alone") {
  const Result result = example("core");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  for (const char* row :
       {"head 0\n0.3333 0.3333 0.3333\n0.5000 0.2500 0.2500\n0.1667 0.6667 0.1667\n",
        "head 1\n0.4000 0.2000 0.4000\n0.2000 0.4000 0.4000\n0.2500 0.2500 0.5000\n"})
    CHECK_THAT(result.out, Contains(row));
}

TEST_CASE("example: the program that the README shows, as it is") {
  const auto text_of = [](const std::string& path) {
    std::ifstream file(source_folder() + "/" + path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string program = text_of("docs/example/first.cpp");
  CHECK(std::count(program.begin(), program.end(), '\n') <= 8);
  CHECK_THAT(text_of("README.md"), Contains("```cpp\n" + program + "```\n"));
  const Result result = example("first");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("0.166667,  0.666667,  0.166667"));
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
  const Result ablate = example("ablate" + words);
  CHECK(ablate.code == 0);
  CHECK(std::count(ablate.out.begin(), ablate.out.end(), '\n') == 24);
  CHECK_THAT(ablate.out, Contains("\n3.0 +0.0940\n3.1 +0.0194\n3.2 -0.0738\n"));
  CHECK(example("ablate").err == "a checkpoint and a text are expected\n");
  const Result steer = example("steer" + words + "'The king is dead'");
  CHECK(steer.code == 0);
  const std::size_t end = steer.out.find('\n');
  CHECK(steer.out.substr(0, end) != steer.out.substr(end + 1, end));
  const Result probe = example("probe" + words + "'To be, or not to be'");
  CHECK(probe.out == "0 0\n1 0\n2 0\n3 0\n4 0\n");
  CHECK_THAT(example("probe" + words + "'The king is dead'").out, !Contains(" 0\n"));
  const Result serve = shell(
      fmt::format("printf 'To be\\nThe king\\nTo be\\n' | '{}'/tests/example/serve data/bard-gpt2",
                  build_folder()));
  CHECK(serve.code == 0);
  CHECK(serve.out == "a\n,\na\n");
  const Result empty = shell(
      fmt::format("printf 'To be\n\n' | '{}'/tests/example/serve data/bard-gpt2", build_folder()));
  CHECK(empty.code == 1); // an error of a thread is the program's
  CHECK(one_line(empty.err));
}

TEST_CASE("example: a convention of another implementation, and the option that does the same") {
  const Folder folder;
  const std::string words = " data/bard-gpt2 'To be, or not to be' ";
  REQUIRE(run({"dump", "data/bard-gpt2", "--text", "To be, or not to be", "--scale", "none", "-o",
               folder.path("theirs.npz"), "--quiet"})
              .code == 0);
  const Result found = example("diagnose" + words + folder.path("theirs.npz"));
  INFO(found.out << found.err);
  CHECK(found.code == 0);
  for (int n = 0; n < 4; ++n)
    CHECK_THAT(found.out, Contains(fmt::format("layers.{}: the reference ", n)));
  CHECK(std::count(found.out.begin(), found.out.end(), '\n') == 4);
  CHECK_THAT(found.out, Contains(": --scale 1\n"));
  CHECK(example("diagnose").err ==
        "a checkpoint, a text and a file of saved stages are expected\n");
}

TEST_CASE("example: a whole model, run, patched and streamed") {
  const Result result = example("model data/bard-gpt2 'To be, or not to be'");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  // As ablate reports of that layer, and as the weights that are kept show of its first head.
  CHECK_THAT(result.out, Contains("without head 1: +0.0194\nwithout head 2: -0.0738\n"));
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 6 + 2 + 1 + 24);
  const std::string kept = "layer 3, head 0: ";
  const std::string largest = result.out.substr(result.out.find(kept) + kept.size(), 5);
  CHECK_THAT(result.out, Contains("\n3.0 " + largest + "\n"));
  CHECK(example("model").err == "a checkpoint and a text are expected\n");
}

TEST_CASE("example: docs/library.md shows the programs of whole models as they are") {
  const auto text_of = [](const std::string& path) {
    std::ifstream file(source_folder() + "/docs/" + path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string page = text_of("library.md");
  for (const std::string name : {"model", "ablate", "steer", "probe", "serve", "diagnose"}) {
    INFO(name);
    const std::string program = text_of(fmt::format("example/{}.cpp", name));
    CHECK(std::count(program.begin(), program.end(), '\n') <= (name == "model" ? 40 : 15));
    CHECK_THAT(page, Contains("```cpp\n" + program + "```\n"));
  }
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
