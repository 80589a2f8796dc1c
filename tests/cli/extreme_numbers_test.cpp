// Numbers at the ends of what a double holds, in a layer and in options: a picture, a table or one
// message, never a crash or a program without an end.

#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

TEST_CASE("extreme numbers: every picture of any two numbers is drawn") {
  const Folder folder;
  for (const std::string numbers :
       {"1e308, -1e308", "1.7e308, 1.7e308", "1e20, 100000000000000016384", "1e-320, 5e-324",
        "NaN, Infinity", "-Infinity, Infinity", "0, 0", "1e-300, 1e300"}) {
    const std::string file = folder.write("layer.json", "{\"scores\": [[[" + numbers + "]]]}");
    for (const std::string form : {"text", "png", "svg", "pdf"})
      for (const std::string color : {"auto", "always"}) {
        const Result result = run({"map", file, "-s", "scores", "-f", form, "-o",
                                   folder.path("out"), "--color", color, "--quiet"});
        INFO(numbers << " " << form << "\n" << result.err);
        CHECK(result.code == 0);
        CHECK_FALSE(folder.read("out").empty());
      }
    for (const std::string command : {"show", "stats", "explain", "info"})
      CHECK(run({command, file}).code <= 2);
  }
}

TEST_CASE("extreme numbers: the ends of the colours") {
  const Folder folder;
  struct Case {
    std::vector<std::string> options;
    std::string says; ///< "": it is drawn
  };
  for (const auto& [options, says] :
       std::vector<Case>{{{"--vmin", "1e20"}, "--vmin 1.00e+20: no number is above it"},
                         {{"--vmin", "1.5"}, "no number is above it, the largest is"},
                         {{"--vmin", "1.5", "--color-scale", "log"}, "no number is above it"},
                         {{"--vmax", "0"}, "--vmax 0: the colours begin at 0"},
                         {{"--vmax", "-1"}, "the colours begin at 0"},
                         {{"--vmin", "1", "--vmax", "1.0000000000000002"}, ""},
                         {{"--vmin", "-1e308", "--vmax", "1e308"}, ""},
                         {{"--vmax", "1e308"}, ""},
                         {{"--vmin", "0.2", "--per-head-range"}, ""},
                         {{"--vmax", "0.05", "--per-head-range"}, ""}}) {
    for (const std::string form : {"text", "png", "svg"}) {
      std::vector<std::string> words{
          "map", "data/bard-gpt2",  "--text", "To be, or not to be", "--layer", "1", "-f", form,
          "-o",  folder.path("out")};
      words.insert(words.end(), options.begin(), options.end());
      const Result result = run(words);
      INFO(options[0] << " " << options[1] << " " << form << "\n" << result.err);
      CHECK(result.code == (says.empty() ? 0 : 2));
      if (!says.empty()) CHECK_THAT(result.err, Contains(says));
    }
  }
}

TEST_CASE("extreme numbers: a list of no tokens is no table") {
  for (const std::string more : {"", "--each-layer"}) {
    const Result result = shell("\"$MHA\" predict data/bard-gpt2 --text 'To be' --top 0 " + more);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("--top is 0: at least 1 expected"));
  }
}
