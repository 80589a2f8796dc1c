// --query and --key by the text of tokens, on every command that has them.

#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

std::string printed(const std::string& line) {
  const Result result = shell("\"$MHA\" " + line);
  INFO(line << "\n" << result.err);
  REQUIRE(result.code == 0);
  REQUIRE_FALSE(result.out.empty());
  return result.out;
}

const std::string text = " data/bard-gpt2 --text ' my love, my good lord' ";

} // namespace

TEST_CASE("--query and --key take the text of tokens wherever they take positions") {
  for (const auto& [by_text, by_number] : {
           std::pair<std::string, std::string>(
               "show" + text + "--layer 1 -s weights --query good --key ' love,2' --head 0",
               "show" + text + "--layer 1 -s weights --query 4 --key 1,2 --head 0"),
           {"show" + text + "--layer 1 -s q -f npy --query ' lord' --head 2 | od -c",
            "show" + text + "--layer 1 -s q -f npy --query 5 --head 2 | od -c"},
           {"dump" + text + "--layer 0 -s weights --head 1 --query ' my#1,4' -o - -f npy | od -c",
            "dump" + text + "--layer 0 -s weights --head 1 --query 3,4 -o - -f npy | od -c"},
           {"map" + text + "--layer 0 --query ',' --key ' love'",
            "map" + text + "--layer 0 --query 2 --key 1"},
           {"explain" + text + "--layer 0 --head 1 --query ' good'",
            "explain" + text + "--layer 0 --head 1 --query 4"},
           {"stats" + text + "--layer all --query ' good, lord' -f csv",
            "stats" + text + "--layer all --query 4,5 -f csv"},
           {"predict" + text + "--query ' my#0'", "predict" + text + "--query 0"},
           {"effects" + text + "--query ' good' --top 3", "effects" + text + "--query 4 --top 3"},
       }) {
    INFO(by_text);
    CHECK(printed(by_text) == printed(by_number));
  }
  // Labels that were given, and a batch in which each text has its own.
  CHECK(printed("show data/quickstart.json -s weights --head 0 --tokens 'a bee c' --query bee") ==
        printed("show data/quickstart.json -s weights --head 0 --tokens 'a bee c' --query 1"));
  CHECK(
      printed(
          "predict data/bard-gpt2 --text 'my love' --text 'my good love' --query ' love' -f csv") ==
      printed("predict data/bard-gpt2 --text 'my love' --text 'my good love' --query -1 -f csv"));
}

TEST_CASE("a token that is not there is told with those near it") {
  for (const auto& [arguments, expected] : {
           std::pair<std::string, std::string>("show" + text + "--layer 0 -s q --query lards",
                                               "no token is 'lards'; near: ' lord' at 5"),
           {"map" + text + "--layer 0 --key loves", "no token is 'loves'; near: ' love' at 1"},
           {"predict" + text + "--query ' my#7'", "' my#1' at 3"},
           {"effects" + text + "--query Hamlet", "there are ' my' at 0"},
           {"show data/bilinear.json -q -s scores --query king", "the tokens have no labels"},
           {"explain data/bard-gpt2 --text 'my love' --text 'my good love' --layer 0 --query ' "
            "love'",
            "it is at 2 in text 0, at 3 in text 1; choose one with --batch"},
       }) {
    const Result result = shell("\"$MHA\" " + arguments);
    INFO(arguments << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(expected));
    CHECK(one_line(result.err));
  }
}
