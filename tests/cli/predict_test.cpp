// predict: what a whole model predicts for a text.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

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
  CHECK(none.err.find("hides no token") != std::string::npos);
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
  says({"predict", "data/bard-gpt2", "--text", "a", "--ids", "1"}, "one of them is to go");
  says({"show", "data/bard-gpt2", "--text", "a", "X=data/induction/hidden.npz:layers.0"},
       "the text gives every layer its input");
}

TEST_CASE("predict --query all: more tokens a position than a line has are in JSON alone") {
  const std::string line = "\"$MHA\" predict data/bard-gpt2 --text 'my love' --query all --top 3";
  CHECK(shell(line).code == 2);
  CHECK_THAT(shell(line).err, Contains("--top changes nothing there") && Contains("--format json"));
  CHECK(shell(line + " -f json").err.empty());
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
           {"--versus ' the'", "give --answer, too"},
           {"--answer ' the' --versus ' the'", "is always 0"},
           {"--answer ' king' --answer-id 3", "name one token"},
           {"--answer 'no such word'", "--answer"},
           {"--answer-id 999999", "the vocabulary has 0 to"},
           {"--answer ' the' --of layers.0.mlp_out", "change nothing"}}) {
    const Result result = shell(line + more);
    INFO(more << ": " << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(message));
  }
}
