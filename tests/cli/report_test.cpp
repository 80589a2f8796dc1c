// report: what the page's text must hold. What it does in a browser is tested in tests/web/.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <regex>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct ReportPage {
  Folder folder;
  std::string layer = folder.write("layer.json", small_layer_json());

  Result report(std::vector<std::string> words) const {
    words.insert(words.begin(), "report");
    return run(words);
  }
  /// The text of the page.
  std::string page(std::vector<std::string> words) const {
    words.insert(words.end(), {"-o", folder.path("page.html")});
    const Result result = report(words);
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(result.out.empty());
    return folder.read("page.html");
  }
};

/// What is between the first `start` and the `end` after it.
std::string between(const std::string& text, const std::string& start, const std::string& end) {
  const std::size_t from = text.find(start);
  REQUIRE(from != std::string::npos);
  const std::size_t to = text.find(end, from + start.size());
  REQUIRE(to != std::string::npos);
  return text.substr(from + start.size(), to - from - start.size());
}

json data_of(const std::string& page) {
  return json::parse(between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

} // namespace

TEST_CASE_METHOD(ReportPage, "report: a page that needs nothing else") {
  const std::string page = this->page({layer});
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  for (const char* word : {"http:", "https:", " src=", "<link", "@import", "url(", "fetch(",
                           "XMLHttpRequest", "innerHTML", "eval("}) {
    INFO(word);
    CHECK(page.find(word) == std::string::npos);
  }
  // What may run and what may style, by hash; nothing may be loaded.
  CHECK(std::regex_search(page,
                          std::regex("default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; "
                                     "script-src 'sha256-[A-Za-z0-9+/]{43}='")));
  CHECK(count(page, "@SCRIPT") + count(page, "@STYLE") + count(page, "@DATA") == 0);
}

TEST_CASE_METHOD(ReportPage, "report: the layers, measures and chunks that the page reads") {
  const std::string page = this->page({layer});
  const json data = data_of(page);
  REQUIRE(data["layers"].size() == 1);
  const json& one = data["layers"][0];
  CHECK(one["T"] == 3);
  CHECK(one["heads"] == json({0, 1}));
  CHECK(one["stages"]["weights"]["form"] == "exact");
  CHECK(one["measures"].size() == 2);
  CHECK(one["measures"][0]["values"].size() == data["measures"].size());
  CHECK(data["measures"].size() > 15);
  CHECK(one["contributions"][1]["share"].size() == 3);
  std::size_t chunks = 0;
  for (const json& stage : one["stages"])
    for (const json& chunk : stage["heads"]) {
      CHECK_THAT(page, Contains(fmt::format("id=\"chunk{}\">", chunk.get<int>())));
      ++chunks;
    }
  CHECK(count(page, "<script type=\"text/plain\"") == chunks);
}

TEST_CASE_METHOD(ReportPage, "report: labels and names are data, whatever they hold") {
  const std::string hostile = "</script><script>alert(1)</script>";
  const std::string page =
      this->page({layer, "--tokens",
                  folder.write("tokens.json", json({hostile, "<!--", "a&b\u2028"}).dump())});
  CHECK(page.find("alert(1)<") == std::string::npos);
  CHECK(page.find("<!--") == std::string::npos);
  CHECK(page.find("\u2028") == std::string::npos);
  CHECK(data_of(page)["layers"][0]["tokens"] == json({hostile, "<!--", "a&b⏎"}));
  const std::string named = folder.write("<b>&.json", small_layer_json());
  CHECK_THAT(this->page({named}), Contains("&lt;b&gt;&amp;.json · attention</title>"));
}

TEST_CASE_METHOD(ReportPage, "report: --tokens labels queries and keys") {
  const json one = data_of(page({layer, "--tokens", "the cat sat"}))["layers"][0];
  CHECK(one["tokens"] == json({"the", "cat", "sat"}));
  CHECK_FALSE(one.contains("keys")); // the same
}

TEST_CASE_METHOD(ReportPage, "report: several layers in one page") {
  const json data = data_of(page({"data/induction", "--layer", "all", "--quiet",
                                  "X=data/induction/hidden.npz:layers.{layer}", "--head", "1,3",
                                  "--tokens", "data/induction/tokens.json"}));
  REQUIRE(data["layers"].size() == 2);
  CHECK(data["layers"][1]["id"] == "1");
  CHECK(data["layers"][1]["heads"] == json({1, 3}));
  CHECK(data["layers"][1]["stages"]["weights"]["heads"].size() == 2);
  CHECK(data["layers"][1]["measures"][1]["kind"] == "induction");
}

TEST_CASE_METHOD(ReportPage, "report: a batch item is a view of its own") {
  const std::string batched = folder.write(
      "batched.json", R"({"weights": [[[[1, 0], [0.5, 0.5]]], [[[0.25, 0.75], [1, 0]]]]})");
  const json data = data_of(page({batched}));
  REQUIRE(data["layers"].size() == 2);
  CHECK(data["layers"][1]["batch"] == 1);
  CHECK(data_of(page({batched, "--batch", "1"}))["layers"].size() == 1);
}

TEST_CASE_METHOD(ReportPage, "report: saved weights alone are enough") {
  const json one = data_of(page({folder.write(
      "weights.json", R"({"weights": [[[1, 0, 0], [0.5, 0.25, 0.25]]]})")}))["layers"][0];
  CHECK(one["stages"].size() == 1);
  CHECK(one["contributions"].empty());
  CHECK(one["T"] == 2);
  CHECK(one["S"] == 3);
}

TEST_CASE_METHOD(ReportPage, "report: to standard output with -o -") {
  const Result result = report({layer, "-o", "-"});
  CHECK(result.code == 0);
  CHECK(result.out == page({layer}));
}

TEST_CASE_METHOD(ReportPage, "report: the same page whatever the threads") {
  const std::string once = page({"data/induction", "--layer", "1", "--quiet", "--threads", "1",
                                 "X=data/induction/hidden.npz:layers.1"});
  CHECK(once == page({"data/induction", "--layer", "1", "--quiet", "--threads", "4",
                      "X=data/induction/hidden.npz:layers.1"}));
}

TEST_CASE_METHOD(ReportPage, "report: fails with a line that says why") {
  const std::string page = folder.path("page.html");
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"-o", page}, "SOURCE"},
      {{layer, "-o", page, "--max-size", "0"}, "--max-size is 0: more than 0 expected"},
      {{layer, "-o", page, "--max-size", "0.1"}, "do not fit into the page's size"},
      {{layer, "-o", page, "--head", "2"}, "--head 2"},
      {{layer, "-o", page, "--batch", "0"}, "the input is not batched"},
      {{layer, "-o", page, "--stage", "q"}, "--stage"},
      {{layer, "-o", folder.path("no/such/page.html")}, "no/such"},
      {{folder.write("q.json", R"({"q": [[[1, 2]]]})"), "-o", page}, "nothing to show"},
  };
  for (const auto& [words, message] : cases) {
    const Result result = report(words);
    INFO(message);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
    CHECK_FALSE(folder.has("page.html"));
  }
}

TEST_CASE_METHOD(ReportPage,
                 "report: exact weights where they pack to what fits, and a size that is kept") {
  // Six heads of 40 queries: 38,400 bytes of float32, of which half are zeros. They are more than
  // what 0.2 MB leaves for them, and pack into it.
  const std::vector<std::string> words{"data/bard-gpt2", "--layer", "0", "--ids",
                                       "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,"
                                       "23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40"};
  const auto form = [&](const std::string& megabytes) {
    std::vector<std::string> sized = words;
    sized.insert(sized.end(), {"--max-size", megabytes});
    const std::string page = this->page(sized);
    CHECK(static_cast<double>(page.size()) <= 1e6 * std::stod(megabytes));
    return data_of(page)["layers"][0]["stages"]["weights"]["form"].get<std::string>();
  };
  CHECK(form("0.200") == "exact");
  CHECK(form("0.180") != "exact");
}

TEST_CASE_METHOD(ReportPage, "report --effects: beside the measures, as effects tells them") {
  const std::vector<std::string> text{"--text", "O Romeo, Romeo!"};
  const json data =
      data_of(page({"data/bard-gpt2", text[0], text[1], "--layer", "1-2", "--effects"}));
  const Result told = run({"effects", "data/bard-gpt2", text[0], text[1], "-f", "json"});
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; i < data["measures"].size(); ++i)
    columns[data["measures"][i]["name"]] = i;
  CHECK(columns.count("loss_change") == 0); // the last token has no next one
  std::size_t compared = 0;
  for (const json& effect : json::parse(told.out)) {
    if (effect["part"] != "head" || effect["layer"] == 0 || effect["layer"] == 3) continue;
    const std::size_t place = effect["layer"].get<std::size_t>() - 1, head = effect["head"];
    for (const char* name : {"kl", "logit_change", "direct"}) {
      CHECK(data["layers"][place]["measures"][head]["values"][columns.at(name)] == effect[name]);
      ++compared;
    }
  }
  CHECK(compared == 36);
  CHECK_THAT(report({layer, "--effects", "-o", folder.path("x.html")}).err,
             Contains("--effects needs a prediction"));
}
