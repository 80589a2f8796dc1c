// convert of whole models: every tensor under its own name, whatever the container.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

const std::string pytorch = source_folder() + "/tests/data/pytorch/";

/// The rows of the first table, the file's tensors, whatever their order and its widths.
std::string tensors_of(const std::string& path) {
  const Result result = run({"info", path});
  CHECK(result.code == 0);
  std::vector<std::string> rows;
  std::istringstream lines(result.out);
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("tensor ")) continue;
  while (std::getline(lines, line) && !line.empty())
    rows.push_back(std::regex_replace(line, std::regex(" +"), " "));
  std::sort(rows.begin(), rows.end());
  std::string all;
  for (const std::string& row : rows) all += row + "\n";
  return all;
}

} // namespace

TEST_CASE("convert writes every tensor of a model as safetensors: names, types, numbers") {
  const Folder folder;
  const std::string whole = folder.path("whole.safetensors");
  for (const std::string& model :
       {pytorch + "checkpoint-zip.pt", pytorch + "checkpoint-old.pt", pytorch + "module-zip.pth",
        pytorch + "script.pt", pytorch + "views-zip.pt", pytorch + "shards",
        source_folder() + "/data/bard-llama"}) {
    INFO(model);
    const Result result = run({"convert", model, "-o", whole});
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    const std::string rows = tensors_of(whole);
    CHECK(!rows.empty());
    CHECK(rows == tensors_of(model));
  }
  CHECK(run({"convert", pytorch + "views-old.pt", "--dump-dtype", "f16", "-o", whole}).code == 0);
  CHECK_THAT(tensors_of(whole),
             Contains("float64.odd float16 1 × 3") && Contains("int64.odd int64 1 × 3"));
}

TEST_CASE("convert writes every tensor of a file of several layers, or of none") {
  const Folder folder;
  const std::string whole = folder.path("whole.safetensors"), again = folder.path("again.npz");
  for (const std::string& model :
       {source_folder() + "/data/bard-gpt2/model.safetensors", pytorch + "empty-2.pkl"}) {
    INFO(model);
    const Result result = run({"convert", model, "-o", again});
    CHECK(result.err.empty());
    REQUIRE(result.code == 0);
    CHECK(tensors_of(again) == tensors_of(model));
    REQUIRE(run({"convert", again, "-o", whole}).code == 0);
    CHECK(tensors_of(whole) == tensors_of(model));
  }
}

TEST_CASE("convert of a pickle that calls something writes nothing") {
  const Folder folder;
  const std::string whole = folder.path("whole.safetensors");
  const Result result =
      run({"convert", source_folder() + "/tests/broken/pt-calls.pt", "-o", whole});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK_THAT(result.err, Contains("calls os.system"));
  CHECK(!std::filesystem::exists(whole));
}
