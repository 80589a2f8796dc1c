// Bad layers: every command line of tests/broken/layers.txt is refused with exactly the line beside
// it. They run in tests/broken/layers, where one small file holds one defect.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <fstream>
#include <set>

using namespace mha::test;
using Catch::Matchers::Contains;

namespace {

struct Line {
  int number = 0;
  std::string arguments, message;
};

std::vector<Line> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Line> lines;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.starts_with('#')) continue;
    const std::size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    lines.push_back({number, line.substr(0, tab), line.substr(tab + 1)});
  }
  return lines;
}

} // namespace

TEST_CASE("bad layers: each is refused in one line that says where, what and what instead") {
  const std::string broken = mha::test::source_folder() + "/tests/broken/";
  const std::vector<Line> lines = lines_of(broken + "layers.txt");
  CHECK(lines.size() >= 150);
  std::string mentioned;
  for (const Line& line : lines) {
    INFO("layers.txt:" << line.number << ": mha-inspect " << line.arguments);
    const Result result = shell("\"$MHA\" " + line.arguments, {.folder = broken + "layers"});
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("mha-inspect: " + line.message + "\n"));
    CHECK(one_line(result.err));
    mentioned += " " + line.arguments + " ";
  }
  // No file is left unused, and no refused command left one.
  for (const auto& entry : std::filesystem::directory_iterator(broken + "layers")) {
    INFO(entry.path().filename());
    CHECK(mentioned.find(entry.path().filename().string()) != std::string::npos);
  }
}

TEST_CASE("layers without tokens, keys or width are nothing to show, in every form") {
  Folder folder;
  const auto empty = [](const char* shape) {
    return std::string(R"({"shape": )") + shape + R"(, "dtype": "float64", "data": []})";
  };
  const std::string no_tokens = folder.write(
      "no-tokens.json", R"({"num_heads": 2, "tokens": [], "X": )" + empty("[0, 4]") + "}");
  const std::string no_keys =
      folder.write("no-keys.json",
                   R"({"num_heads": 1, "X": [[1, 2], [3, 4]], "X_kv": )" + empty("[0, 2]") + "}");
  const std::string no_batch =
      folder.write("no-batch.json", R"({"num_heads": 2, "X": )" + empty("[0, 3, 4]") + "}");
  const std::string no_width =
      folder.write("no-width.json", R"({"num_heads": 2, "X": )" + empty("[3, 0]") + "}");
  for (const std::string& layer : {no_tokens, no_keys, no_batch, no_width}) {
    const auto works = [&](std::vector<std::string> arguments) {
      const Result result = run(arguments);
      std::string line;
      for (const std::string& word : arguments) line += " " + word;
      INFO("mha-inspect" << line << "\n" << result.err);
      CHECK(result.code == 0);
    };
    works({"info", layer});
    works({"stages", layer});
    works({"show", layer});
    for (const char* form : {"table", "csv", "tsv", "json", "ndjson"}) {
      works({"show", layer, "-f", form});
      works({"show", layer, "-s", "all", "-f", form});
    }
    for (const char* form : {"csv", "tsv"})
      works({"show", layer, "-s", "all", "-f", form, "--matrix"});
    works({"show", layer, "-s", "x", "-f", "npy"});
    for (const char* path : {"out.npz", "out.safetensors", "out.json", "out/"}) {
      works({"dump", layer, "-o", folder.path(path)});
      works({"info", folder.path(path)});
    }
    works({"convert", layer, "-o", folder.path("again.npz")});
    CHECK(run({"show", folder.path("again.npz"), "-s", "all", "-f", "csv"}).out ==
          run({"show", layer, "-s", "all", "-f", "csv"}).out);
  }
  CHECK(run({"show", no_tokens, "-s", "weights,row_sum,output", "-f", "csv"}).out ==
        "layer,stage,batch,head,row,col,value\n");
  CHECK(run({"show", no_keys, "-s", "weights", "-f", "ndjson"}).out ==
        "{\"layer\": null, \"stage\": \"weights\", \"head\": 0, \"row\": 0, \"values\": []}\n"
        "{\"layer\": null, \"stage\": \"weights\", \"head\": 0, \"row\": 1, \"values\": []}\n");
  // Nobody to attend to: the weighted sum over nothing is zero, and so is a row's sum.
  CHECK(run({"show", no_keys, "-s", "output", "-f", "csv", "--matrix"}).out == "0,0\n0,0\n");
  CHECK(run({"explain", no_keys, "--query", "0", "--head", "0"}).code == 0);
}

TEST_CASE("a weight that every other layer has is missed in the one that lacks it") {
  const Folder folder;
  const auto layer = [](int n, const char* without) {
    std::string members;
    for (const char* name : {"W_q", "W_k", "W_v", "W_o", "b_v"})
      if (std::string_view(name) != without)
        members += fmt::format(R"(, "layers.{}.{}": {})", n, name,
                               name[0] == 'b' ? "[1, 2]" : "[[1, 2], [3, 5]]");
    return members;
  };
  for (const char* without : {"W_o", "W_q", "b_v"}) {
    const std::string path =
        folder.write("layers.json", R"({"num_heads": 1, "X": [[1, 0], [0, 1], [2, 1]])" +
                                        layer(0, "") + layer(1, without) + layer(2, "") + "}");
    const auto run = [&](const std::string& n) {
      return shell(fmt::format("\"$MHA\" show '{}' --layer {} -s output --strict", path, n));
    };
    INFO(without);
    CHECK(run("0").code == 0);
    const Result lacks = run("1");
    INFO(lacks.err);
    CHECK(lacks.code == 2);
    CHECK_THAT(lacks.err, Contains(fmt::format("layers.1.{} is missing, which every other layer "
                                               "has",
                                               without)));
  }
}
