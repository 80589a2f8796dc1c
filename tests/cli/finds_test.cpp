// What fuzzing found in layers that are right. Files that are refused are in tests/broken.

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

TEST_CASE("finds: x that is given is attended to, as X is") {
  const Folder folder;
  const std::string tensors = R"([[1, 2, 0, 1], [3, -1, 2, 0], [0, 1, 1, 2]],
    "num_heads": 2, "W_q": [[1, 0, 2, 1], [0, 1, 0, 1], [2, 0, 1, 0], [1, 1, 0, 1]],
    "W_k": [[0, 1, 1, 0], [1, 0, 0, 2], [0, 2, 1, 0], [1, 0, 1, 1]],
    "W_v": [[1, 1, 0, 0], [0, 2, 1, 0], [1, 0, 0, 1], [0, 1, 2, 0]]})";
  const std::string X = folder.write("X.json", R"({"X": )" + tensors);
  const std::string x = folder.write("x.json", R"({"x": )" + tensors);
  for (const char* stage : {"weights", "head_out"}) {
    const Result from_X = run({"show", X, "-s", stage, "-f", "csv"});
    const Result from_x = run({"show", x, "-s", stage, "-f", "csv"});
    CHECK(from_x.code == 0);
    CHECK(from_X.out.find("nan") == std::string::npos);
    CHECK(from_X.out.size() > 100);
    CHECK(from_x.out == from_X.out);
  }
}
