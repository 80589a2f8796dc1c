// map --minus and --batch mean: against the stages that show prints.

#include "support/picture.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::string bard = "data/bard-gpt2 --text ' my love, my lord' ";

json numbers_of(const std::string& options, const std::string& stage) {
  const Result result = shell("\"$MHA\" show " + options + " -q -f json -s " + stage);
  INFO(options << result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out)[stage];
}

/// The array that map writes, as JSON reads it back.
json map_array(const std::string& options) {
  const Folder folder;
  const std::string file = folder.path("map.npy");
  const Result written = shell("\"$MHA\" map " + options + " -q -o " + file);
  INFO(options << written.err);
  REQUIRE(written.code == 0);
  const Result result =
      shell("/usr/bin/python3 -c 'import json, sys, numpy as np; a = np.load(sys.argv[1]); "
            "print(json.dumps({\"shape\": a.shape, \"data\": a.tolist()}))' " +
            file);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

void flatten(const json& list, std::vector<double>& numbers) {
  if (list.is_array())
    for (const json& one : list) flatten(one, numbers);
  else
    numbers.push_back(list.is_number() ? list.get<double>() : NAN);
}
std::vector<double> flat(const json& list) {
  std::vector<double> numbers;
  flatten(list, numbers);
  return numbers;
}

} // namespace

TEST_CASE("map --minus: layers, heads, texts, checkpoints and a patched run, cell by cell") {
  const Folder folder;
  const std::string copy = folder.path("copy");
  REQUIRE(shell("cp -r data/bard-gpt2 " + copy).code == 0);
  struct Case {
    std::string first, minus, second, stage = "weights";
  };
  const std::string layer2 = bard + "--layer 2 ";
  for (const Case& one : {
           Case{layer2, "--minus-layer 3", bard + "--layer 3"},
           Case{layer2 + "--head 1", "--minus-head 4", layer2 + "--head 4"},
           Case{layer2, "--minus-text ' my lord, my love'",
                "data/bard-gpt2 --text ' my lord, my love' --layer 2"},
           Case{layer2, "--minus-ids 1,2,3,4,5", "data/bard-gpt2 --ids 1,2,3,4,5 --layer 2",
                "scores"},
           Case{layer2, "--minus " + copy + " --minus-layer 1",
                copy + " --text ' my love, my lord' --layer 1"},
           Case{layer2, "--minus-patch 'layers.1.head_out[0] = zero'",
                layer2 + "--patch 'layers.1.head_out[0] = zero'"},
           Case{layer2 + "--patch 'layers.1.head_out[0] = zero' ", "--minus-patch none", layer2},
           Case{layer2, "--minus-scale 0.5", layer2 + "--scale 0.5"},
           Case{layer2 + "--scale 2", "--minus scale=0.5", layer2 + "--scale 0.5"},
           Case{layer2, "--minus-window-left=1 --minus-layer 1",
                bard + "--layer 1 --window-left 1"},
           Case{layer2 + "--query 1: --key 0,2", "--minus-layer 0",
                bard + "--layer 0 --query 1: --key 0,2"},
       }) {
    INFO(one.first << one.minus);
    const json a = numbers_of(one.first, one.stage), b = numbers_of(one.second, one.stage),
               difference = map_array(one.first + " " + one.minus + " -s " + one.stage);
    CHECK(difference["shape"] == a["shape"]);
    const std::vector<double> x = flat(a["data"]), y = flat(b["data"]),
                              d = flat(difference["data"]);
    REQUIRE(d.size() == x.size());
    bool any = false;
    for (std::size_t i = 0; i < d.size(); ++i) {
      CHECK(d[i] == Approx(x[i] - y[i]).margin(2e-7 * std::max(1.0, std::abs(x[i]))));
      any |= d[i] != 0;
    }
    CHECK(any);
  }
  // One head is subtracted from each.
  const json heads = map_array(layer2 + "--minus-head 3");
  CHECK(heads["shape"] == json({6, 5, 5}));
  for (const double zero : flat(heads["data"][3])) CHECK(zero == 0);
}

TEST_CASE("map --batch mean: of the items that have the cell") {
  const std::string texts =
      "data/bard-gpt2 --text ' my love, my lord' --text 'the king' --text 'O Romeo' --layer 1 ";
  const json mean = map_array(texts + "--head 2 --batch mean");
  std::vector<json> items;
  for (const char* text : {"' my love, my lord'", "'the king'", "'O Romeo'"})
    items.push_back(numbers_of(fmt::format("data/bard-gpt2 --text {} --layer 1 --head 2", text),
                               "weights")["data"]);
  REQUIRE(mean["shape"] == json({items[0].size(), items[0].size()}));
  for (std::size_t q = 0; q < items[0].size(); ++q)
    for (std::size_t k = 0; k < items[0].size(); ++k) {
      double sum = 0;
      int count = 0;
      for (const json& item : items)
        if (q < item.size() && k <= q) sum += item[q][k].get<double>(), ++count;
      CHECK(mean["data"][q][k].get<double>() == Approx(count == 0 ? 0 : sum / count).margin(1e-7));
    }
  const Result text = shell("\"$MHA\" map " + texts + "--head 2 --batch mean");
  CHECK(text.err.empty());
  CHECK_THAT(text.out, Contains("weights · data/bard-gpt2 layer 1 · mean of 3 items"));
}

TEST_CASE("map --minus: colours around zero, in every form") {
  const std::string command = "map " + bard + "--layer 2 --head 0 --minus-layer 3 ";
  const Result text = shell("\"$MHA\" " + command);
  CHECK(text.err.empty());
  CHECK_THAT(text.out, Contains("weights · data/bard-gpt2 layer 2 − layer 3") &&
                           Contains("\n-0.27 [") && Contains("] 0.27"));
  // One end gives the other.
  CHECK_THAT(shell("\"$MHA\" " + command + "--vmax 0.5").out,
             Contains("-0.50 [") && Contains("] 0.50"));
  CHECK_THAT(shell("\"$MHA\" " + command + "--vmin -0.4").out,
             Contains("-0.40 [") && Contains("] 0.40"));
  const Folder folder;
  for (const auto& [name, begins] :
       {std::pair("d.png", "\x89PNG"), {"d.svg", "<svg"}, {"d.pdf", "%PDF"}}) {
    const Result result = shell("\"$MHA\" " + command + "-o " + folder.path(name));
    CHECK(result.code == 0);
    CHECK(folder.read(name).substr(0, 200).find(begins) != std::string::npos);
  }
  // Where two texts have other tokens both are labels.
  REQUIRE(shell("\"$MHA\" map " + bard + "--layer 2 --head 0 --minus-text ' my lord, my love' -o " +
                folder.path("two.svg"))
              .code == 0);
  CHECK_THAT(folder.read("two.svg"), Contains("love| lord") || Contains("love|lord"));
  // Blue below zero, red above it, and both ends are given by the same measure.
  const std::string svg = folder.read("d.svg");
  CHECK_THAT(svg, Contains("−0.2") && Contains(">0.2<"));
}

TEST_CASE("map --minus and --batch mean: one line says what is wrong") {
  for (const auto& [line, message] : std::vector<std::pair<std::string, std::string>>{
           {bard + "--layer 2 --minus-text king", "a map of 5 × 5 and one of"},
           {bard + "--layer 2 -o x.npy",
            "map writes an array only of a difference (--minus), a mean"},
           {bard + "--layer 2 --minus-layer 1 -o '{head}.png'", "leave out {head}"},
           {bard + "--layer 2 --minus-layer 1 --pool max", "--pool max"},
           {bard + "--layer 2 --minus-layer 1 --color-scale log", "a single linear scale around 0"},
           {bard + "--layer 2 --minus-layer 1 --per-head-range", "a single linear scale around 0"},
           {bard + "--layer 2 --minus-causal perhaps", "true or false expected"},
           {bard + "--layer 2 --minus-causal", "--minus-causal needs a value"},
           {bard + "--layer 2 --minus-layer 9", "--minus-layer 9: there is no layer 9"},
           {"data/quickstart.json --minus-layer 2", "leave --minus-layer out"},
           {bard + "--layer 2 --head 0-2 --minus-head 0,1", "3 maps and 2 to subtract"},
           {bard + "--layer 2 --batch mean", "the input is not batched"},
           {bard + "--layer 2 -s rollout --batch mean", "--batch mean has no effect"},
           {bard + "--layer 2 -s rollout --minus-layer 1", "--minus has no effect"},
           {"data/quickstart.json --minus-text love", "the first side has none"},
           {bard + "--layer 2 --minus-patch 'layers.3.head_out = zero'", "layers.3.head_out"},
       }) {
    const Result result = shell("\"$MHA\" map " + line);
    INFO(line << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
}

TEST_CASE("map difference: of a map and itself it is said to be nothing") {
  const std::string said = "note: both maps are equal: the difference is 0 everywhere";
  const std::vector<std::string> line{"map", "data/bard-gpt2", "--text", "To be", "--layer", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), line.begin(), line.end());
    return run(more);
  };
  CHECK_THAT(with({"--minus-layer", "1"}).err, Contains(said));
  CHECK_THAT(with({"--head", "2", "--minus-head", "2"}).err, Contains(said));
  CHECK_THAT(with({"--minus-text", "To be"}).err, Contains(said));
  CHECK_THAT(with({"--minus", "data/bard-gpt2"}).err, Contains(said));
  CHECK(with({"--minus-layer", "1"}).code == 0);
  CHECK_THAT(with({"--minus-layer", "2"}).err, !Contains(said));
  CHECK_THAT(with({"--minus-layer", "1", "-q"}).err, !Contains(said));
}
