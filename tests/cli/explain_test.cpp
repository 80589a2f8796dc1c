#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iterator>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

std::string golden(const std::string& name) {
  std::ifstream file(mha::test::source_folder() + "/tests/golden/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result explain(std::vector<std::string> words, const std::string& columns = "80") {
  words.insert(words.begin(), "explain");
  Setting setting;
  setting.env["COLUMNS"] = columns;
  return run(words, setting);
}

/// A trained head: a long row, cut off by causal.
const std::vector<std::string> long_row{"data/induction",
                                        "--layer",
                                        "1",
                                        "X=data/induction/hidden.npz:layers.1",
                                        "--causal",
                                        "--tokens",
                                        "data/induction/tokens.json",
                                        "--query",
                                        "17",
                                        "--quiet"};

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

} // namespace

TEST_CASE("explain: one head, from x to the output") {
  const Result result = explain({"data/quickstart.json", "--query", "2", "--head", "0"});
  CHECK(result.err == "");
  CHECK(result.code == 0);
  CHECK(result.out == golden("explain-head.txt"));
}

TEST_CASE("explain: every head in brief") {
  const Result result = explain({"data/quickstart.json", "--query", "2"});
  CHECK(result.code == 0);
  CHECK(result.out == golden("explain-heads.txt"));
}

TEST_CASE("explain: a long row shows the largest weights and sums up the rest") {
  const Result result = explain(long_row + std::vector<std::string>{"--head", "0", "--top", "3"});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("15 more keys") && Contains("15 keys masked: 18–32") &&
                             Contains("sees keys 0–17"));
  CHECK(result.out == golden("explain-long-row.txt"));
}

TEST_CASE("explain: the text fits the width, in every form") {
  for (const char* columns : {"60", "80", "132"})
    for (const std::vector<std::string>& head : {std::vector<std::string>{}, {"--head", "3"}}) {
      const Result result = explain(long_row + head, columns);
      REQUIRE(result.code == 0);
      std::size_t start = 0, lines = 0;
      while (start < result.out.size()) {
        const std::size_t end = result.out.find('\n', start);
        std::size_t width = 0;
        for (std::size_t i = start; i < end; ++i)
          if ((static_cast<unsigned char>(result.out[i]) & 0xc0) != 0x80) ++width;
        INFO(result.out.substr(start, end - start));
        CHECK(width <= static_cast<std::size_t>(std::stoi(columns)));
        start = end + 1, ++lines;
      }
      if (columns != std::string("60")) CHECK(lines <= 40);
    }
}

TEST_CASE("explain: colours only where they are wanted, and the same content without them") {
  const std::vector<std::string> words{"data/quickstart.json", "--query", "2", "--head", "0"};
  const std::string plain = explain(words).out;
  std::string colored = explain(words + std::vector<std::string>{"--color", "always"}).out;
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK_THAT(colored, Contains("\x1b[1m") && Contains("\x1b[2m") && Contains("\x1b[36m"));
  for (std::size_t at; (at = colored.find('\x1b')) != std::string::npos;)
    colored.erase(at, colored.find('m', at) - at + 1);
  CHECK(colored == plain);
}

TEST_CASE("explain: a token cannot send escapes to the terminal") {
  const Folder folder;
  const std::string layer = folder.write(
      "evil.json", R"({"num_heads": 1, "tokens": ["a\u001b[31m", "b\nc"], "X": [[1, 0], [0, 1]]})");
  for (const std::vector<std::string>& head : {std::vector<std::string>{}, {"--head", "0"}}) {
    const Result result =
        explain(std::vector<std::string>{layer, "--query", "0", "--quiet"} + head);
    CHECK(result.code == 0);
    CHECK(result.out.find('\x1b') == std::string::npos);
    CHECK(result.out.find("b\nc") == std::string::npos);
  }
}

TEST_CASE("explain: JSON has the same content in full") {
  const Result result =
      explain({"data/quickstart.json", "--query", "2", "--head", "0", "-f", "json"});
  REQUIRE(result.code == 0);
  const json object = json::parse(result.out);
  CHECK(object["query"] == 2);
  CHECK(object["token"] == "sat");
  CHECK(object["d_k"] == 2);
  CHECK(object["x"] == json({0.0, 0.0, 1.0, 1.0}));
  REQUIRE(object["heads"].size() == 1);
  const json& head = object["heads"][0];
  CHECK(head["head"] == 0);
  CHECK(head["concat_range"] == json({0, 2}));
  REQUIRE(head["keys"].size() == 3);
  CHECK(head["keys"][1]["token"] == "cat");
  CHECK(head["keys"][1]["score"] == 2.0);
  CHECK(head["keys"][1]["masked"] == false);
  CHECK(head["keys"][1]["weight"].get<double>() == Approx(2.0 / 3).epsilon(1e-14));
  CHECK(object["output"].size() == 4);

  const json every =
      json::parse(explain({"data/quickstart.json", "--query", "2", "-f", "json"}).out);
  double share = 0;
  for (const json& each : every["heads"]) share += each["share"].get<double>();
  CHECK(share == Approx(1));
}

TEST_CASE("explain: JSON writes what is not finite as strings") {
  const Result result = explain({"data/quickstart.json", "--query", "0", "--causal", "--head", "0",
                                 "--softmax", "naive", "--scale", "4000", "-f", "json"});
  REQUIRE(result.code == 0);
  const json head = json::parse(result.out)["heads"][0];
  CHECK(head["keys"][1]["logit"] == "-Infinity");
  CHECK(head["keys"][1]["masked"] == true);
}

TEST_CASE("explain: the overflow of the naive softmax is pointed out") {
  const Result result = explain({"data/quickstart.json", "--query", "2", "--head", "0", "--softmax",
                                 "naive", "--scale", "400"});
  CHECK(result.code == 0);
  CHECK_THAT(result.out,
             Contains("overflow: 1 exponential is infinite") && Contains("α = inf / inf = nan"));
}

TEST_CASE("explain: a file, one per head, a list of layers") {
  const Folder folder;
  CHECK(explain({"data/quickstart.json", "--query", "2", "-o", folder.path("{head}.json")}).code ==
        0);
  CHECK(folder.names() == std::vector<std::string>{"0.json", "1.json"});
  CHECK(json::parse(folder.read("1.json"))["heads"][0]["head"] == 1);

  const Result layers =
      explain({"data/induction", "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}",
               "--query", "3", "--quiet", "-f", "json"});
  const json list = json::parse(layers.out);
  REQUIRE(list.size() == 2);
  CHECK(list[1]["layer"] == 1);
}

TEST_CASE("explain: refuses what it cannot tell") {
  const auto refused = [](const std::vector<std::string>& words) {
    const Result result = explain(words, "200");
    CHECK(result.code == 2);
    CHECK(result.out == "");
    CHECK(one_line(result.err));
    return result.err;
  };
  CHECK_THAT(refused({"data/quickstart.json", "--query", "3"}),
             Contains("there are 3 queries (0 to 2)"));
  CHECK_THAT(refused({"data/quickstart.json", "--query", "0-1"}), Contains("one at a time"));
  CHECK_THAT(refused({"data/quickstart.json", "--query", "0", "--head", "2"}),
             Contains("there are 2 heads"));
  CHECK_THAT(refused({"data/quickstart.json", "--query", "0", "--batch", "0"}),
             Contains("not batched"));
}

namespace {

/// A layer of one head: 3 tokens 2 wide, keys 3 wide; the last two tokens are not looked at.
std::string one_head_layer(const Folder& folder, const std::string& more = "") {
  return folder.write("one.json", R"({"num_heads": 1, "X": [[1, 2], [3, -1], [0, 1]],
      "W_q": [[1, 0, 2], [0, 1, -1]], "W_k": [[0, 1, 1], [2, 0, 1]], "W_v": [[1], [3]])" +
                                      more + "}");
}

} // namespace

TEST_CASE("explain: the only head is explained in full") {
  const Folder folder;
  const std::string path = one_head_layer(folder);
  for (const char* form : {"text", "json"}) {
    const Result alone = explain({path, "--query", "1", "-f", form}),
                 named = explain({path, "--query", "1", "--head", "0", "-f", form});
    CHECK(alone.code == 0);
    CHECK(alone.out == named.out);
  }
  CHECK_THAT(explain({path, "--query", "1"}).out,
             Contains("head 0 of 1") && Contains("Compare with keys") && Contains("q·k of key"));
}

TEST_CASE("explain: --key writes out how one score becomes a weight") {
  const Folder folder;
  const std::string path = one_head_layer(folder, R"(, "scale": 0.5)");
  // q of token 1 is (3, −1, 7), k of token 0 (4, 1, 3): 12 − 1 + 21; k of 1 (−2, 3, 2), of 2 (2, 0,
  // 1).
  const std::string text = explain({path, "--query", "1", "--key", "0"}).out;
  CHECK_THAT(text, Contains("q·k of key 0: 3.000·4.000 + (-1.000)·1.000 + 7.000·3.000 = 32.00\n"));
  CHECK_THAT(text, Contains("key 0: scaled 16.00, exp 1.000, α "));
  CHECK_THAT(explain({path, "--query", "1", "--key", "-1"}).out,
             Contains("q·k of key 2: 3.000·2.000 + (-1.000)·0.000 + 7.000·1.000 = 13.00\n") &&
                 Contains("key 2: scaled 6.500, exp "));
  // A key that the table would not list is in it, and a masked one is called so.
  const std::string listed = explain({path, "--query", "1", "--key", "1", "--top", "1"}).out;
  CHECK_THAT(listed,
             Contains("q·k of key 1: 3.000·(-2.000) + (-1.000)·3.000 + 7.000·2.000 = 5.000\n"));
  CHECK_THAT(listed, Contains("\n  1            5.00") && Contains("1 more key"));
  CHECK_THAT(explain({path, "--query", "1", "--key", "2", "--causal"}).out,
             Contains("α 0.000; masked\n"));
  CHECK_THAT(explain({path, "--key", "3"}).err, Contains("--key 3"));
  CHECK_THAT(explain({path, "--key", "0,1"}).err, Contains("--key 0,1 selects 2 keys"));
  CHECK_THAT(explain({path, "--key", "0", "-f", "json"}).err, Contains("JSON has all keys"));
  CHECK_THAT(explain({"data/quickstart.json", "--key", "0"}).err,
             Contains("--key writes out the score of one head: choose one of the 2 with\n"));
  CHECK_THAT(explain({"data/quickstart.json", "--query", "2", "--head", "0", "--key", "the"}).out,
             Contains("q·k of key 0: 0.000·1.000") || Contains("q·k of key 0: "));
  // A wide head is written out as well, in lines that fit.
  const Result wide =
      explain(long_row + std::vector<std::string>{"--head", "0", "--key", "3"}, "70");
  CHECK_THAT(wide.out, Contains("q·k of key 3: "));
}
