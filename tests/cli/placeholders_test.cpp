// {layer}, {batch} and {head} in --output, and what is none of them.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::vector<std::string> texts{"--text", "To be", "--text", "O Romeo, Romeo!"};

struct Command {
  std::vector<std::string> words; ///< without the text
  std::string extension;
  bool layer = true, batch = true, head = true; ///< what it fills in
};

const std::vector<Command>& commands() {
  static const std::vector<Command> list{
      {{"show", "data/bard-llama", "-s", "row_sum", "--layer", "0,1"}, ".csv"},
      {{"show", "data/bard-llama", "--layer", "0,1"}, ".json"},
      {{"stats", "data/bard-llama", "--layer", "0,1"}, ".csv"},
      {{"map", "data/bard-llama", "--layer", "0,1"}, ".svg"},
      {{"dump", "data/bard-llama", "-s", "weights", "--layer", "0,1"}, ".npz"},
      {{"explain", "data/bard-llama", "--layer", "0,1", "--query", "0"}, ".json"},
      {{"report", "data/bard-llama", "--layer", "0,1"}, ".html"},
      {{"predict", "data/bard-llama", "--each-layer"}, ".json", true, true, false},
      {{"effects", "data/bard-llama", "--top", "1"}, ".json", false, false, false},
      {{"tokens", "data/bard-llama"}, ".json", false, true, false},
      {{"convert", "data/bard-llama", "--layer", "0,1"}, ".npz", true, false, false},
      {{"diff", "data/bard-llama", "--against", "nothing.npz"}, ".json", false, false, false},
      {{"diagnose", "data/bard-llama", "--against", "nothing.npz"}, ".json", false, false, false},
      {{"info", "data/bard-llama"}, ".json", false, false, false},
      {{"bench", "data/bard-llama"}, ".json", false, false, false},
      {{"names"}, ".json", false, false, false},
      {{"stages"}, ".json", false, false, false}};
  return list;
}

Result run_to(const Command& command, const std::string& path) {
  std::vector<std::string> words = command.words;
  if (words[0] != "names" && words[0] != "stages")
    words.insert(words.end(), texts.begin(), texts.end());
  words.insert(words.end(), {"-o", path, "--quiet"});
  return run(words);
}

} // namespace

TEST_CASE("placeholders: what stands in braces and is none is an error of every command") {
  for (const Command& command : commands())
    for (const std::string word : {"{lyer}", "{heads}", "{x}", "{}", "{Layer}", "{stage}"}) {
      Folder folder;
      const Result result = run_to(command, folder.path("a" + word + command.extension));
      INFO(command.words[0] << " " << word << ": " << result.err);
      CHECK(result.code == 2);
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Contains(word + " is not a placeholder"));
      CHECK(std::filesystem::is_empty(folder.path("")));
      if (command.layer && word == "{lyer}")
        CHECK_THAT(result.err, Contains("did you mean '{layer}'"));
    }
}

TEST_CASE("placeholders: one whose brace is not closed is an error, too") {
  Folder folder;
  for (const auto& [word, meant] : {std::pair("{head", "{head}"), {"{layer", "{layer}"}}) {
    const Result result = run({"map", "data/quickstart.json", "-o", folder.path(word) + ".png"});
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(std::string("did you mean '") + meant + "'"));
  }
  CHECK(run({"map", "data/quickstart.json", "-o", folder.path("a{b.png")}).code == 0); // a name
  CHECK(folder.names() == std::vector<std::string>{"a{b.png"});
}

TEST_CASE("placeholders: known ones write a file each, or say that there is nothing to fill in") {
  for (const Command& command : commands())
    for (const auto& [word, filled, count] : {std::tuple(std::string("{layer}"), command.layer, 2),
                                              {"{batch}", command.batch, 2},
                                              {"{head}", command.head, 6}}) {
      Folder folder;
      const Result result = run_to(command, folder.path("a" + word + command.extension));
      INFO(command.words[0] << " " << word << ": " << result.err);
      if (!filled) {
        CHECK(result.code == 2);
        CHECK(one_line(result.err));
        CHECK_THAT(result.err, Contains(word + " has no meaning here"));
        CHECK(std::filesystem::is_empty(folder.path("")));
        continue;
      }
      CHECK(result.code == 0);
      const bool of_all =
          command.words[0] == "predict" && word == "{layer}"; // every layer's stream
      for (int i = 0; i < count; ++i)
        CHECK(folder.has("a" + std::to_string(i) + command.extension));
      if (!of_all) CHECK_FALSE(folder.has("a" + std::to_string(count) + command.extension));
    }
}

TEST_CASE("placeholders: a file of each part holds what one file of all holds") {
  Folder folder;
  const auto predict = [&](const std::string& path) {
    return run_to({{"predict", "data/bard-llama", "--top", "2"}, ""}, folder.path(path)).code;
  };
  REQUIRE(predict("all.json") == 0);
  REQUIRE(predict("text{batch}.json") == 0);
  const json all = json::parse(folder.read("all.json"))["predictions"];
  for (std::size_t b = 0; b < 2; ++b) {
    const json one = json::parse(folder.read("text" + std::to_string(b) + ".json"))["predictions"];
    REQUIRE(one.size() == 1);
    CHECK(one[0] == all[b]);
  }
  CHECK_THAT(run_to({{"predict", "data/bard-llama"}, ""}, folder.path("l{layer}.json")).err,
             Contains("{layer} needs --each-layer"));
}

TEST_CASE("placeholders: stats of each text, and of each head, are those of a selection") {
  Folder folder;
  const Command stats{{"stats", "data/bard-llama", "--layer", "1"}, ""};
  REQUIRE(run_to(stats, folder.path("text{batch}.csv")).code == 0);
  REQUIRE(run_to(stats, folder.path("head{head}.csv")).code == 0);
  for (const std::string n : {"0", "1"}) {
    Command one = stats;
    one.words.insert(one.words.end(), {"--batch", n});
    REQUIRE(run_to(one, folder.path("alone.csv")).code == 0);
    CHECK(folder.read("text" + n + ".csv") == folder.read("alone.csv"));
    Command head = stats;
    head.words.insert(head.words.end(), {"--head", n});
    REQUIRE(run_to(head, folder.path("alone.csv")).code == 0);
    CHECK(folder.read("head" + n + ".csv") == folder.read("alone.csv"));
  }
}

TEST_CASE("placeholders: {batch} of one text is 0, in every command that fills it in") {
  for (const Command& command : commands()) {
    if (!command.batch) continue;
    Folder folder;
    std::vector<std::string> words = command.words;
    words.insert(words.end(),
                 {"--text", "To be", "-o", folder.path("a{batch}" + command.extension), "--quiet"});
    const Result result = run(words);
    INFO(command.words[0] << ": " << result.err);
    CHECK(result.code == 0);
    CHECK(folder.has("a0" + command.extension));
  }
}
