// A layer typed by hand from --help and docs/formats.md, in the spellings that people have: each is
// understood, or its message leads to the right file in one step.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <fstream>

using namespace mha::test;
using Catch::Contains;

namespace {

/// The layer of the quick start with some text replaced.
std::string layer_with(std::initializer_list<std::pair<std::string, std::string>> changes) {
  std::ifstream file(source_folder() + "/data/quickstart.json");
  std::string text(std::istreambuf_iterator<char>(file), {});
  for (const auto& [from, to] : changes) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  }
  return text;
}

Result shown(const std::string& layer, std::vector<std::string> more = {}) {
  Folder folder;
  folder.write("layer.json", layer);
  std::vector<std::string> words{"show", "layer.json", "-s", "output", "-f", "csv"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words, {.folder = folder.path()});
}

} // namespace

TEST_CASE("misspelt: what can only mean one thing is understood") {
  const std::string right = shown(layer_with({})).out;
  REQUIRE_FALSE(right.empty());
  for (const auto& [from, to] : {std::pair("\"W_q\"", "\"Wq\""),
                                 {"\"W_q\"", "\"wq\""},
                                 {"\"W_q\"", "\"W_Q\""},
                                 {"\"W_k\"", "\"w_key\""},
                                 {"\"W_v\"", "\"W_value\""},
                                 {"\"W_o\"", "\"W_out\""},
                                 {"\"W_o\"", "\"Wo\""},
                                 {"\"X\"", "\"input\""},
                                 {"\"X\"", "\"inputs\""},
                                 {"\"X\"", "\"x\""},
                                 {"\"num_heads\"", "\"heads\""},
                                 {"\"num_heads\"", "\"n_heads\""},
                                 {"\"num_heads\"", "\"nheads\""},
                                 {"\"num_heads\"", "\"num_attention_heads\""},
                                 {"\"num_heads\"", "\"numHeads\""},
                                 {"[\"the\", \"cat\", \"sat\"]", "\"the cat sat\""}}) {
    INFO(to);
    const Result result = shown(layer_with({{from, to}}));
    CHECK(result.err == "");
    CHECK(result.out == right);
  }
  const std::string causal = shown(layer_with({}), {"--causal"}).out;
  CHECK(shown(layer_with({{"\"num_heads\"", "\"Mask\": [[true, false, false], [true, true, false], "
                                            "[true, true, true]], \"num_heads\""}}))
            .out == causal);
}

TEST_CASE("misspelt: what can mean two things is corrected by name, in one step") {
  struct Case {
    std::string from, to, meant, cure;
  };
  for (const Case& one : {Case{"W_q", "Q_proj", "W_q", "W_q=layer.json:Q_proj@OI"},
                          Case{"W_q", "q_proj", "W_q", "W_q=layer.json:q_proj@OI"},
                          Case{"W_k", "to_k", "W_k", "W_k=layer.json:to_k@OI"},
                          Case{"W_v", "value_weight", "W_v", "W_v=layer.json:value_weight@OI"},
                          Case{"W_o", "out_proj", "W_o", "W_o=layer.json:out_proj@OI"},
                          Case{"W_q", "query_kernel", "W_q", "W_q=layer.json:query_kernel@OI"}}) {
    INFO(one.to);
    const std::string layer = layer_with({{"\"" + one.from + "\"", "\"" + one.to + "\""}});
    const Result result = shown(layer);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("did you mean '" + one.meant + "'?") && Contains(one.cure) &&
                               Contains("`mha-inspect names`"));
    // What it prints works: X W it was, so @IO.
    const std::string binding = one.meant + "=layer.json:" + one.to + "@IO";
    const Result cured = shown(layer, {binding});
    CHECK(cured.code == 0);
    CHECK(cured.out == shown(layer_with({})).out);
  }
  const auto refused = [](const std::string& from, const std::string& to, const std::string& says) {
    const Result result = shown(layer_with({{from, to}}));
    INFO(to << ": " << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(says));
  };
  refused("\"X\"", "\"query\"", "write X (the input), Q");
  refused("\"num_heads\": 2,", "\"num_heads\": 2, \"k_bias\": [0, 0, 0, 0],", "write b_k");
  refused("\"num_heads\": 2,", "\"num_heads\": 2, \"maks\": [0, 0, 0],", "did you mean 'mask'?");
  refused("\"num_heads\": 2,", "\"d_head\": 2,", "give num_heads");
  refused("\"num_heads\": 2,", "\"num_heads\": 2, \"casual\": true,", "did you mean 'causal'?");
}

TEST_CASE("misspelt: a projection is the identity only where nothing could have been meant") {
  // Of the shape of its siblings, under a name without a meaning.
  const Result sibling = shown(layer_with({{"\"W_q\"", "\"A\""}}));
  CHECK(sibling.code == 2);
  CHECK_THAT(sibling.err,
             Contains("there is no W_q, and A (4, 4) could be it: write W_q=layer.json:A"));
  const Result lone = shown(R"({"X": [[1, 2]], "W": [[1, 2], [3, 4]], "num_heads": 1})");
  CHECK(lone.code == 2);
  CHECK_THAT(lone.err, Contains("W (2, 2) could be it"));
  // Something else is passed over, and the overview states what was computed.
  Folder folder;
  folder.write("layer.json", R"({"X": [[1, 2]], "loss": [1, 2, 3], "num_heads": 1})");
  const Result none = run({"show", "layer.json"}, {.folder = folder.path()});
  CHECK(none.code == 0);
  CHECK_THAT(none.out, Catch::Matches("[^]*\nq +1 × 1 × 2 +X +[^]*"));
  CHECK_THAT(none.err, Contains("note: layer.json: skipped, not a tensor of a layer: loss\n"));
}

TEST_CASE("misspelt: weights of names that say nothing are asked for, and right once bound") {
  const Result result = shell("/usr/bin/python3 tests/models/unread.py \"$MHA\"");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains(" runs, 0 finds"));
}

TEST_CASE(
    "misspelt: layers of libraries and tutorials are read by their names, and others asked about") {
  const Result result = shell("/usr/bin/python3 tests/models/named.py \"$MHA\"");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains(" runs, 0 finds"));
}

TEST_CASE("misspelt: bindings and options say the right name, too") {
  Folder folder;
  folder.write("layer.json", layer_with({}));
  const auto says = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"show", "layer.json"});
    const Result result = run(words, {.folder = folder.path()});
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    return result.err;
  };
  CHECK_THAT(says({"q_proj=layer.json:W_q"}), Contains("did you mean 'W_q'?") && Contains("@OI"));
  CHECK_THAT(says({"Woo=layer.json:W_o"}), Contains("did you mean 'W_o'?"));
  CHECK_THAT(says({"values=layer.json:W_v"}), Contains("write X_v (the input), V"));
  CHECK_THAT(says({"--heads", "2"}), Contains("did you mean '--num-heads'?"));
  CHECK_THAT(says({"--n-heads", "2"}), Contains("did you mean '--num-heads'?"));
  CHECK(run({"show", "layer.json", "Wq=layer.json:W_q"}, {.folder = folder.path()}).code == 0);
}

TEST_CASE("names: the table, for eyes, as JSON, and in docs/formats.md") {
  const Result table = run({"names"});
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Contains("W_q") && Contains("num_heads") && Contains("n_heads") &&
                            Contains("key_padding_mask"));
  const Result markdown = run({"names", "-f", "markdown"});
  CHECK_THAT(markdown.out, Contains("| `W_q` |") && Contains("`Wq`"));
  // docs/formats.md has it between two comments: `mha-inspect names --format markdown`.
  std::ifstream file(source_folder() + "/docs/formats.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::size_t begin = page.find("<!-- names -->\n"), end = page.find("<!-- /names -->");
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  CHECK(page.substr(begin + 15, end - begin - 15) == markdown.out);
  CHECK_THAT(run({"names", "-f", "json"}).out, Contains(R"("name": "W_q")"));
}
