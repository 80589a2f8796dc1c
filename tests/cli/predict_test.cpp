// predict: what a whole model predicts for a text.

#include "support/files.hpp"
#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>
#include <tuple>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

json predicted(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "predict");
  arguments.insert(arguments.end(), {"-f", "json"});
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}
json list_of(std::vector<std::string> arguments) {
  return predicted(std::move(arguments))["predictions"];
}

} // namespace

TEST_CASE("the last position's most probable tokens, with probability and logit") {
  const json list = list_of({"data/bard-llama", "--text", "To be, or not to", "--top", "3"});
  REQUIRE(list.size() == 1);
  const json& next = list[0]["next"];
  REQUIRE(next.size() == 3);
  CHECK(list[0]["position"].get<int>() > 3);
  CHECK(list[0]["token"] == " to");
  CHECK(next[0]["probability"].get<double>() >= next[1]["probability"].get<double>());
  CHECK(next[0]["logit"].get<double>() >= next[1]["logit"].get<double>());
  CHECK(next[0]["token"] == " be");
}

TEST_CASE("all positions: rank and probability of what came, mean loss and perplexity") {
  const json all =
      predicted({"data/induction-model", "--ids",
                 in_source("data/induction-model/expected/repeat.npz"), "--query", "all"});
  const json& list = all["predictions"];
  CHECK_FALSE(list.back().contains("came")); // nothing comes after the last one
  double loss = 0;
  for (const json& one : list)
    if (one.contains("came")) loss += one["came"]["loss"].get<double>();
  CHECK(all["loss"].get<double>() == Approx(loss / static_cast<double>(list.size() - 1)));
  CHECK(all["perplexity"].get<double>() == Approx(std::exp(all["loss"].get<double>())));
  // The text repeats itself: the second half is foretold.
  CHECK(list[list.size() - 2]["came"]["rank"] == 1);
}

TEST_CASE("a hidden word of a masked model") {
  const json list = list_of({"data/bard-bert", "--text", "to be, or not to [MASK]."});
  REQUIRE(list.size() == 1);
  CHECK(list[0]["token"] == "[MASK]");
  CHECK(list[0]["next"].size() == 10);
  const Result none = run({"predict", "data/bard-bert", "--text", "to be"});
  CHECK(none.code == 2);
  CHECK(none.err.find("the text hides none") != std::string::npos);
}

TEST_CASE("the stream of each layer predicts, and the last one's is the model's end") {
  const json lens = list_of({"data/bard-gpt2", "--text", "To be", "--each-layer"});
  const json end = list_of({"data/bard-gpt2", "--text", "To be", "--top", "3"});
  REQUIRE(lens.size() == 4);
  CHECK(lens[3]["layer"] == 3);
  CHECK(lens[3]["next"] == end[0]["next"]);
  CHECK(lens[0]["next"] != end[0]["next"]);
}

TEST_CASE("several texts, each with its own last position") {
  const json list =
      list_of({"data/bard-gpt2", "--text", "To be", "--text", "O Romeo, Romeo!", "--top", "2"});
  REQUIRE(list.size() == 2);
  CHECK(list[0]["batch"] == 0);
  CHECK(list[1]["batch"] == 1);
  CHECK(list[0]["next"] == list_of({"data/bard-gpt2", "--text", "To be", "--top", "2"})[0]["next"]);
}

TEST_CASE("what cannot be predicted is said") {
  const auto says = [](const std::vector<std::string>& arguments, const std::string& words) {
    const Result result = run(arguments);
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK(result.err.find(words) != std::string::npos);
  };
  says({"predict", "data/bard-gpt2", "--ids", "5,99999"}, "the vocabulary has 0 to 1023");
  says({"predict", "data/bard-gpt2", "--ids", "x,y"}, "x,y: no such file");
  says({"predict", "data/induction", "--ids", "1,2"}, "X=FILE");
  says({"predict", "data/bard-gpt2", "--text", ""}, "no token");
  says({"predict", "data/bard-gpt2", "--text", "a", "--ids", "1"}, "remove one of them");
  says({"show", "data/bard-gpt2", "--text", "a", "X=data/induction/hidden.npz:layers.0"},
       "the text gives every layer its input");
}

TEST_CASE("predict --query all: more tokens a position than a line has are in JSON alone") {
  const std::string line = "\"$MHA\" predict data/bard-gpt2 --text 'my love' --query all --top 3";
  CHECK(shell(line).code == 2);
  CHECK_THAT(shell(line).err, Contains("--top has no effect") && Contains("--format json"));
  CHECK(shell(line + " -f json").err.empty());
}

TEST_CASE("predict and effects: an answer for each text comes from a file") {
  const Folder folder;
  const std::string texts = folder.write("texts.txt", "my love\nthe\nmy lord and king\n"),
                    answers = folder.write("answers.txt", " king\r\n the\n love"),
                    versus = folder.write("versus.txt", " the\n love\n king\n");
  const std::string model = "data/bard-gpt2 ", all = "--text-file " + texts + " --each-line ";
  const auto printed = [](const std::string& line) {
    const Result result = shell("\"$MHA\" " + line);
    INFO(line << "\n" << result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  // Each text has what it has alone.
  const std::tuple<std::string, std::string, std::string> alone[]{
      {"my love", " king", " the"},
      {"the", " the", " love"},
      {"my lord and king", " love", " king"}};
  const json together =
      json::parse(printed("predict " + model + all + "--answer-file " + answers +
                          " --versus-file " + versus + " --top 1 -f json"))["predictions"];
  const std::string effects = printed("effects " + model + all + "--answer-file " + answers +
                                      " --versus-file " + versus + " --per-position -f csv");
  REQUIRE(together.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& [text, answer, other] = alone[i];
    const std::string line =
        model + "--text '" + text + "' --answer '" + answer + "' --versus '" + other + "' ";
    json one = json::parse(printed("predict " + line + "--top 1 -f json"))["predictions"][0];
    one["batch"] = i;
    CHECK(together[i] == one);
    std::istringstream rows(printed("effects " + line + "--per-position -f csv"));
    std::string row;
    std::getline(rows, row);
    while (std::getline(rows, row)) {
      // part, layer, head, batch …
      std::size_t at = 0;
      for (int commas = 0; commas < 3; ++commas) at = row.find(',', at) + 1;
      row.replace(at, 1, std::to_string(i));
      CHECK(effects.find("\n" + row + "\n") != std::string::npos);
    }
  }
  CHECK_THAT(printed("effects " + model + all + "--top 2 --answer-file " + answers),
             Contains("of the logit of each text's token in") && Contains(answers));
  // Of a model without a tokenizer a line is a number.
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy(source_folder() + "/data/induction-model/" + file, folder.path(file));
  const std::string bare = "predict " + folder.path() + " --ids 1,2 --ids 3 --top 1 ",
                    numbers = folder.write("numbers.txt", "7\n9\n"),
                    beyond = folder.write("beyond.txt", "7\n99999\n");
  const json numbered = json::parse(printed(bare + "-f json --answer-file " + numbers));
  CHECK(numbered["predictions"][0]["answer"]["id"] == 7);
  CHECK(numbered["predictions"][1]["answer"]["id"] == 9);
  const Result refused = shell("\"$MHA\" " + bare + "--answer-file " + beyond);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("--answer-file " + beyond +
                                   ", line 2: '99999': the model has no tokenizer; give the "
                                   "token's number, 0 to "));
  const std::string two = folder.write("two.txt", " king\n the\n"),
                    empty = folder.write("empty.txt", " king\n\n the\n"),
                    words = folder.write("words.txt", " king\n the\nwherefore art thou\n");
  for (const auto& [more, message] : std::vector<std::pair<std::string, std::string>>{
           {"--answer-file " + two, "--answer-file " + two +
                                        " has 2 lines for 3 texts: one line for each "
                                        "text expected, in order"},
           {"--answer-file " + empty, "line 2: empty line; a token expected"},
           {"--answer-file " + words, "line 3: 'wherefore art thou' is not a single token"},
           {"--answer-file " + answers + " --answer ' the'", "give it without --answer"},
           {"--answer-file " + answers + " --answer-id 3", "give it without --answer-id"},
           {"--answer-file " + answers + " --versus ' the'",
            "text 1: --answer and --versus are both"},
           {"--answer-file none.txt", "none.txt"}})
    for (const char* command : {"predict ", "effects "}) {
      const Result result = shell("\"$MHA\" " + (command + model) + all + more);
      INFO(command << more << ": " << result.err);
      CHECK(result.code == 2);
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Contains(message));
    }
}

TEST_CASE("predict: --answer and --versus are told wherever they rank") {
  const std::string line = "\"$MHA\" predict data/bard-gpt2 --text 'my love' ";
  const json all = json::parse(shell(line + "--top 999 -f json").out)["predictions"][0]["next"];
  const auto candidate = [&](const std::string& token) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i]["token"] == token) return std::pair(all[i], i + 1);
    FAIL(token << " is no candidate");
    return std::pair(json(), std::size_t{0});
  };
  const auto [king, king_rank] = candidate(" king");
  const auto [the, the_rank] = candidate(" the");
  const json found = json::parse(
      shell(line + "--top 1 --answer ' king' --versus ' the' -f json").out)["predictions"][0];
  CHECK(found["next"].size() == 1);
  CHECK(found["answer"]["logit"] == king["logit"]);
  CHECK(found["answer"]["probability"] == king["probability"]);
  CHECK(found["answer"]["rank"] == king_rank);
  CHECK(found["versus"]["rank"] == the_rank);
  CHECK(found["logit_difference"].get<double>() ==
        king["logit"].get<double>() - the["logit"].get<double>());
  const std::string csv = shell(line + "--query all --answer ' king' --versus-id 5 -f csv").out;
  CHECK(csv.starts_with("batch,position,layer,id,token,piece,predicted_id,predicted,"
                        "predicted_probability,came_id,came,came_probability,came_rank,loss,"
                        "answer_id,answer,answer_probability,answer_logit,answer_rank,versus_id,"
                        "versus,versus_probability,versus_logit,versus_rank,logit_difference\n"));
  CHECK_THAT(shell(line + "--top 1 --answer ' king' --versus ' the'").out,
             Contains("the first logit less the second: "));
  CHECK_THAT(shell(line + "--query all --answer ' king'").out, Contains("p(answer)  rank(answer)"));
  for (const auto& [more, message] : std::vector<std::pair<std::string, std::string>>{
           {"--versus ' the'", "give also --answer"},
           {"--answer ' the' --versus ' the'", "is always 0"},
           {"--answer ' king' --answer-id 3", "name the token"},
           {"--answer 'no such word'", "--answer"},
           {"--answer-id 999999", "the vocabulary has 0 to"},
           {"--answer ' the' --of layers.0.mlp_out", "have no effect"}}) {
    const Result result = shell(line + more);
    INFO(more << ": " << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(message));
  }
}
