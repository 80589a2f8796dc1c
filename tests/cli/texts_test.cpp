// Whole models and their texts: options without a use, what a batch, a converted layer, a NaN in a
// weight and an input without a token say.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::string square = "[[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]]";

} // namespace

TEST_CASE("texts: options of a text that change nothing") {
  const Folder folder;
  const std::string file = folder.write("lines.txt", "To be\nor not\n"),
                    layer = folder.write("layer.json", small_layer_json());
  const std::string model = "data/bard-llama";
  for (const auto& [words, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"predict", model, "--text", "To be", "--each-line"}, "--each-line is for"},
           {{"tokens", model, "--text", "To be", "--each-line"}, "--each-line is for"},
           {{"show", model, "--ids", "3,4", "--each-line"}, "--each-line is for"},
           {{"show", layer, "--each-line"}, "--each-line is for"},
           {{"show", model, "--ids", "3,4", "--bos"}, "--bos changes nothing"},
           {{"predict", model, "--ids", "3,4", "--no-bos"}, "--no-bos changes nothing"},
           {{"dump", model, "--ids", "3,4", "--no-special", "-o", folder.path("x.npz")},
            "--no-special changes nothing"},
           {{"stats", layer, "--bos"}, "--bos changes nothing"},
           {{"show", model, "--text", "To be", "--no-special", "--bos"}, "contradict each other"},
           {{"tokens", model, "--text-file", file, "--bos", "--no-special"},
            "contradict each other"},
           {{"predict", model, "--text", "To be", "--tokens", "a b"}, "have no effect"},
           {{"predict", model, "--text", "To be", "--key-tokens", "a b"}, "have no effect"}}) {
    const Result result = run(words);
    INFO(fmt::format("{}", fmt::join(words, " ")) << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(says));
  }
  CHECK(run({"tokens", model, "--text-file", file, "--each-line", "--no-bos"}).code == 0);
  CHECK(run({"tokens", model, "--text", "To be", "--no-special", "--no-bos"}).code == 0);
}

TEST_CASE("texts: a batch's warnings say which text") {
  const std::string model = "data/bard-gpt2";
  for (const char* command : {"tokens", "predict"}) {
    const Result result =
        run({command, model, "--text", "To be", "--text", "To \xff be", "--text", "not"});
    INFO(result.err);
    CHECK_THAT(result.err, Contains("text 1: "));
    const Result alone = run({command, model, "--text", "To \xff be"});
    CHECK_FALSE(alone.err.empty());
    CHECK_THAT(alone.err, !Contains("text 0"));
  }
}

TEST_CASE("texts: names in brackets, one file of a checkpoint") {
  const Folder folder;
  std::filesystem::create_directory(folder.path("[a,b]"));
  folder.write("[a,b]/layer.json", small_layer_json());
  folder.write("[0]", small_layer_json());
  const Setting there{.folder = folder.path()};
  CHECK(run({"convert", "[a,b]/layer.json", "-q", "-o", "[1,2]"}, there).code == 0);
  for (const char* name : {"[1,2]", "[a,b]/layer.json"}) {
    const Result result = run({"show", name, "-s", "output", "-f", "csv"}, there);
    INFO(name << result.err);
    CHECK(result.code == 0);
    CHECK(result.out ==
          run({"show", "-", "-s", "output", "-f", "csv"}, {.input = small_layer_json()}).out);
  }
  CHECK(run({"tokens", "data/bard-llama", "--text", "[a,b]"}).out ==
        run({"tokens", "data/bard-llama", "--text=[a,b]"}).out);

  for (const std::string what : {"--text", "--ids"}) {
    const Result result =
        run({"predict", "data/bard-llama/model.safetensors", what, what == "--ids" ? "1,2" : "be"});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("give the folder: data/bard-llama"));
  }
  const Result tokens = run({"tokens", "data/bard-llama/model.safetensors", "--text", "be"});
  CHECK(tokens.code == 2);
  CHECK_THAT(tokens.err, Contains("data/bard-llama"));
  CHECK(run({"predict", "data/bard-llama/model.safetensors", "--config",
             "data/bard-llama/config.json", "--ids", "1,2"})
            .code == 0);
  const Result two = run({"show", "data/bard-llama", "data/bard-gpt2", "--ids", "1,2"});
  CHECK(two.code == 2);
  CHECK_THAT(two.err, Contains("two checkpoints"));
}

TEST_CASE("texts: a converted batch of texts keeps their lengths") {
  const Folder folder;
  const std::vector<std::string> text{
      "data/bard-gpt2", "--text", "To be, or not to be", "--text", "That", "--layer", "1"};
  for (const char* format : {"layer.npz", "layer.safetensors", "layer.json", "layer"}) {
    const std::string path = folder.path(format);
    std::vector<std::string> convert{"convert"}, stats{"stats"};
    convert.insert(convert.end(), text.begin(), text.end());
    convert.insert(convert.end(), {"-q", "-o", path});
    REQUIRE(run(convert).code == 0);
    stats.insert(stats.end(), text.begin(), text.end());
    stats.insert(stats.end(), {"-q", "-f", "json", "--measures", "entropy,masked_rows"});
    const Result whole = run(stats),
                 layer =
                     run({"stats", path, "-q", "-f", "json", "--measures", "entropy,masked_rows"});
    INFO(format << whole.err << layer.err);
    REQUIRE(layer.code == 0);
    const nlohmann::json here = nlohmann::json::parse(layer.out),
                         there = nlohmann::json::parse(whole.out);
    REQUIRE(here.size() == there.size());
    for (std::size_t head = 0; head < here.size(); ++head)
      for (const char* measure : {"entropy", "masked_rows"})
        CHECK(here[head][measure] == there[head][measure]);
  }
  const std::string wrong = folder.write(
      "wrong.json", R"({"X": [[[1, 0], [0, 1]], [[1, 1], [0, 0]]], "W_q": [[1, 0], [0, 1]],
      "W_k": [[1, 0], [0, 1]], "W_v": [[1, 0], [0, 1]], "num_heads": 1, "lengths": [1, 3]})");
  const Result result = run({"show", wrong});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("lengths has 3 for batch item 1"));
}

TEST_CASE("texts: NaN in a weight is named, and no head behind it looks like anything") {
  const Folder folder;
  for (const std::string letter : {"q", "k", "v", "o"}) {
    std::string text = small_layer_json();
    const std::size_t at = text.find("\"W_" + letter + "\": [[") + 9;
    text.replace(at, text.find(',', at) - at, "NaN");
    const std::string path = folder.write("nan.json", text);
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"stats", path}, {"report", path, "-o", folder.path("page.html")}, {"map", path}}) {
      if (words[0] == "map" && (letter == "v" || letter == "o"))
        continue; // its weights are numbers
      const Result result = run(words);
      INFO(letter << " " << words[0] << "\n" << result.out << result.err);
      CHECK(result.code == 0);
      CHECK_THAT(result.err, Contains("warning: W_" + letter + " has 1 NaN"));
      std::vector<std::string> strict = words;
      strict.push_back("--strict");
      CHECK(run(strict).code == 2);
    }
    if (letter == "q" || letter == "k") {
      const nlohmann::json heads = nlohmann::json::parse(
          run({"stats", path, "-q", "-f", "json", "--measures", "entropy"}).out);
      CHECK(heads[0]["kind"] != "mixed"); // column 0 is the first head's
    }
  }
}

TEST_CASE("texts: an empty line is named by its file and number, and a byte order mark is told") {
  const Folder folder;
  const std::string model = "data/bard-gpt2", mark = "\xEF\xBB\xBF",
                    gap = folder.write("gap.txt", "To be\n\nor not\n"),
                    gaps = folder.write("gaps.txt", "To be\r\n\r\n\r\n"),
                    marked = folder.write("marked.txt", mark + "To be\nor not\n");
  for (const std::string command : {"stats", "predict", "effects"}) {
    const auto of = [&](const std::vector<std::string>& more) {
      std::vector<std::string> words{command, model};
      words.insert(words.end(), more.begin(), more.end());
      return run(words);
    };
    CHECK_THAT(of({"--text-file", gap, "--each-line"}).err,
               Contains("line 2 of " + gap + " has no token to compute with; leave"));
    CHECK_THAT(of({"--text-file", gaps, "--each-line"}).err,
               Contains("line 2 of " + gaps + " has no token to compute with, nor have others"));
    CHECK_THAT(of({"--text", "a", "--text-file", gap, "--each-line"}).err, Contains("line 2 of"));
    CHECK_THAT(of({"--text", "a", "--text", ""}).err, Contains("text 1 has no token"));
    CHECK_THAT(of({"--text", ""}).err, Contains("the text has no token"));
    const Result told = of({"--text-file", marked, "--each-line"});
    CHECK(told.code == 0);
    CHECK_THAT(told.err, Contains("text 0: the text begins with a byte order mark"));
    CHECK(of({"--text-file", marked, "--each-line", "--strict"}).code == 2);
  }
  CHECK_THAT(run({"tokens", model, "--text-file", marked}).err, Contains("byte order mark"));
  CHECK(run({"tokens", model, "--text", "To " + mark + "be"}).err.find("mark") ==
        std::string::npos);
}

TEST_CASE("texts: lines that a query does not apply to are passed over, and counted") {
  const Folder folder;
  const std::string lines = folder.write("lines.txt", "To be, or not to be\nmy\nO Romeo, Romeo\n");
  const auto of = [&](const std::string& line) { return shell("\"$MHA\" " + line); };
  const std::string each = " data/bard-gpt2 --each-line --text-file " + lines;
  const std::string two = " data/bard-gpt2 --text 'To be, or not to be' --text 'O Romeo, Romeo'";
  for (const std::string query : {" --query 3", " --query ','"}) {
    const Result some = of("predict" + each + query + " -f json"),
                 all = of("predict" + two + query + " -f json");
    INFO(some.err);
    REQUIRE(some.code == 0);
    CHECK_THAT(some.err, Contains("1 of 3 lines lack such a token and are skipped"));
    const json found = json::parse(some.out)["predictions"],
               expected = json::parse(all.out)["predictions"];
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i]["next"] == expected[i]["next"]);
    const Result effects = of("effects" + each + query + " -f json");
    CHECK(effects.code == 0);
    CHECK(json::parse(effects.out) == json::parse(of("effects" + two + query + " -f json").out));
  }
  CHECK(of("predict" + each + " --query 99").code == 2);
  CHECK(of("predict" + each + " --query 99 -q").err.find("no text has such a token") !=
        std::string::npos);
  CHECK(of("predict data/bard-gpt2 --text 'To be, or not to be' --text my --query 3").code == 2);
}

TEST_CASE("texts: the line feed at the end of a piped text is noted") {
  for (const char* command : {"tokens", "predict"}) {
    const std::string line =
        std::string(" | \"$MHA\" ") + command + " data/bard-gpt2 --text-file - ";
    CHECK_THAT(shell("echo 'To be'" + line).err, Contains("ends with a line feed"));
    CHECK(shell("printf 'To be'" + line).err.empty());
    CHECK(shell("echo 'To be'" + line + "--each-line").err.empty());
    CHECK(shell("echo 'To be'" + line + "-q").err.empty());
  }
}
