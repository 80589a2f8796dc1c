// What fuzzing found in layers that are right. Files that are refused lie in tests/broken.

#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;

TEST_CASE("finds: a concatenation without W_o shows what each head adds") {
  const Folder folder;
  folder.write("concat.json", R"({"num_heads": 2, "concat": [[1, 2, 3, 4], [5, 6, 7, 8]]})");
  const Result result = run({"show", folder.path("concat.json"), "-s", "head_result", "-f", "csv",
                             "--matrix", "--head", "1"});
  CHECK(result.err.empty());
  CHECK(result.out == "0,0,3,4\n0,0,7,8\n");
}

TEST_CASE("finds: a given output of another width than the heads' says that W_o is missing") {
  const Folder folder;
  const std::string layer = folder.write(
      "layer.json", R"({"num_heads": 1, "X": [[1, 2], [3, 4]], "output": [[1], [2]]})");
  CHECK(run({"show", layer}).code == 0);
  const Result result = run({"show", layer, "-s", "head_result"});
  CHECK(result.code == 2);
  CHECK(result.err == "mha-inspect: head_result cannot be computed: W_o is missing: 1 heads of 2 "
                      "values side by side, but the output that is given is 1 wide\n");
}
