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
