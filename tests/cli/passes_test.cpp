// A text through a model: every command makes and computes each layer once.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace mha::test;

namespace {

using Words = std::vector<std::string>;

/// The numbers that --timings prints.
nlohmann::json timings(const Words& words) {
  Words line = words;
  line.insert(line.end(), {"--timings", "--quiet"});
  const Result result = run(line);
  INFO(result.err);
  REQUIRE((result.code == 0 || result.code == 1));
  return nlohmann::json::parse(result.err.substr(result.err.rfind('{')));
}

/// "{out}" is a path for what is written.
const std::vector<Words> cases{
    {"show"},
    {"show", "-s", "exp,output", "--query", "1"},
    {"show", "-s", "weights"},
    {"show", "-s", "weights", "--head", "0", "--query", "2"},
    {"show", "-s", "q,masked,weights", "-o", "{out}{layer}-{head}.csv"},
    {"show", "-s", "weights", "-f", "npy", "-o", "{out}{layer}.npy"},
    {"show", "-s", "logits", "--query", "1"},
    {"map"},
    {"map", "--head", "1", "-o", "{out}{layer}.png"},
    {"map", "-s", "scores", "-o", "{out}{layer}-{head}.png"},
    {"stats"},
    {"stats", "--head", "0", "--measures", "entropy"},
    {"stats", "-o", "{out}{head}.csv"},
    {"explain", "--query", "2"},
    {"explain", "--query", "2", "--head", "1"},
    {"report", "-o", "{out}.html"},
    {"report", "--head", "1", "-o", "{out}.html"},
    {"dump", "-o", "{out}.npz"},
    {"dump", "-s", "resid_post", "-o", "{out}.npy"},
    {"dump", "-s", "weights", "--head", "0", "-o", "{out}.npz"},
    {"dump", "-s", "weights", "-o", "{out}{layer}.npz"},
    {"dump", "-s", "weights,mlp_out", "--part", "2/3", "-o", "{out}.npz"},
    {"diff", "--against", "{reference}"},
    {"diff", "--layer", "all", "--against", "weights={weights}"},
    {"predict"},
    {"predict", "--query", "all"},
    {"predict", "--each-layer"},
};

struct Texts : Folder {
  /// One command on a model with `layers` layers.
  void check(const Words& words, const std::string& model, const Words& text, std::size_t layers,
             const Words& more = {}) {
    Words line;
    for (std::string word : words) {
      for (const auto& [from, to] : {std::pair<std::string, std::string>("{out}", path("out")),
                                     {"{reference}", path("reference.npz")},
                                     {"{weights}", path("weights{layer}.npy")}})
        if (const std::size_t at = word.find(from); at != std::string::npos)
          word.replace(at, from.size(), to);
      line.push_back(word);
    }
    line.insert(line.begin() + 1, model);
    line.insert(line.end(), text.begin(), text.end());
    line.insert(line.end(), more.begin(), more.end());
    std::string typed;
    for (const std::string& word : line) typed += word + " ";
    INFO(typed);
    const nlohmann::json found = timings(line);
    CHECK(found["layers_made"] == layers);
    CHECK(found["layers_computed"] == layers);
  }
};

} // namespace

TEST_CASE_METHOD(Texts, "passes: every command makes and computes each layer of a text once") {
  struct Model {
    std::string path;
    Words text;
  };
  constexpr std::size_t layers = 4;
  for (const Model& one :
       {Model{"data/bard-gpt2", {"--ids", "1,5,9,2,7"}},
        Model{"data/bard-llama", {"--ids", "3,1,4", "--ids", "1,5,9,2", "--ids", "6"}},
        Model{"data/bard-bert", {"--ids", "2,7,1,8"}}}) {
    const std::string& model = one.path;
    const Words& text = one.text;
    const auto dump = [&](const Words& more) {
      Words line{"dump", model, "--quiet"};
      line.insert(line.end(), text.begin(), text.end());
      line.insert(line.end(), more.begin(), more.end());
      REQUIRE(run(line).code == 0);
    };
    dump({"-o", path("reference.npz")});
    dump({"-s", "weights", "-o", path("weights{layer}.npy")});
    const bool batched = text.size() > 2;
    for (const Words& words : cases) {
      if (words[0] == "predict" && model == "data/bard-bert") continue;
      Words more;
      if (batched && words[0] == "explain") more = {"--batch", "1"};
      check(words, model, text, layers, more);
    }
    if (!batched) continue;
    for (const Words& chosen : {Words{"--batch", "1"}, Words{"--batch", "0,2"}})
      for (const Words& words :
           {Words{"report", "-o", "{out}.html"}, Words{"stats"}, Words{"show", "-s", "weights"},
            Words{"map"}, Words{"dump", "-s", "q", "-o", "{out}.npz"}})
        check(words, model, text, layers, chosen);
  }
}

TEST_CASE_METHOD(Texts,
                 "passes: layers before a chosen one are made and computed once, others not") {
  for (const Words& words : {Words{"show", "--layer", "2"}, Words{"stats", "--layer", "0,2"},
                             Words{"explain", "--query", "0", "--layer", "2"},
                             Words{"dump", "--layer", "2", "-o", "{out}.npz"},
                             Words{"report", "--layer", "1,2", "-o", "{out}.html"}})
    check(words, "data/bard-gpt2", {"--ids", "1,5,9,2,7"}, 3);
}

TEST_CASE("passes: what is taken out of a layer computes the layers behind it, and no other") {
  // 6 heads, the attention and the feed-forward of each of 4 layers: 3, 2, 1 and 0 layers follow.
  // Beside them a whole pass, with which --timings compares them.
  const nlohmann::json found = timings({"effects", "data/bard-gpt2", "--ids", "1,5,9"});
  CHECK(found["layers_made"] == 4);
  CHECK(found["layers_computed"] == 4 + (6 + 1 + 1) * (3 + 2 + 1 + 0) + 4);
  // Two texts; a stream that is replaced before a layer is followed by 4, 3, 2 and 1 layers.
  const nlohmann::json sweep =
      timings({"effects", "data/bard-gpt2", "--ids", "1,5,9", "--patch-from-ids", "2,5,9",
               "--sweep", "resid_pre", "--over", "layer", "--answer-id", "3", "--versus-id", "4"});
  CHECK(sweep["layers_made"] == 4);
  CHECK(sweep["layers_computed"] == 2 * 4 + (4 + 3 + 2 + 1));
}

TEST_CASE("passes: layers from files are counted, too") {
  const nlohmann::json found = timings(
      {"stats", "data/induction", "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}"});
  CHECK(found["layers_made"] == 2);
  CHECK(found["layers_computed"] == 2);
}
