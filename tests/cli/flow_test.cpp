// Flow over heads and layers on show, dump and map, against NumPy's numbers (tests/data/flow).

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

constexpr const char* kinds[] = {"weights_mean", "value_norms", "value_norms_sum",
                                 "rollout",      "received",    "divergence"};

/// The numbers of nested lists, and of how many axes they are.
void flatten(const json& list, std::vector<double>& numbers) {
  if (list.is_array())
    for (const json& one : list) flatten(one, numbers);
  else
    numbers.push_back(list.get<double>());
}

json printed(const std::string& line) {
  const Result result = shell("\"$MHA\" " + line);
  INFO(line << "\n" << result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

const std::string text = " data/bard-gpt2 --text ' my love, my good lord' ";

} // namespace

TEST_CASE("flow: weights_mean, value norms, rollout, received, divergence are NumPy's") {
  for (const char* name : {"llama", "bert", "padded"}) {
    std::ifstream file(source_folder() + "/tests/data/flow/" + name + ".json");
    const json input = json::parse(file);
    std::string line = "data/" + input["model"].get<std::string>() + " --dtype f64 -q -f json";
    for (const json& ids : input["ids"]) line += " --ids " + ids.get<std::string>();
    for (const char* kind : kinds) {
      const json found = printed("show " + line + " -s " + kind + " --layer 0,2,3");
      CHECK(found.size() == 3);
      for (const char* layer : {"0", "2", "3"}) {
        const std::string key = std::string("layers.") + layer + "." + kind;
        INFO(name << " " << key);
        std::vector<double> expected, numbers;
        flatten(input["expected"][key], expected), flatten(found[key]["data"], numbers);
        REQUIRE(expected.size() == numbers.size());
        std::size_t count = 1;
        for (const json& axis : found[key]["shape"]) count *= axis.get<std::size_t>();
        CHECK(count == numbers.size());
        double error = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i)
          error = std::max(error, std::abs(numbers[i] - expected[i]));
        CHECK(error < 1e-9);
      }
    }
  }
}

TEST_CASE("flow: a layer alone, selections, the same numbers in every form") {
  // A rollout of layer 2 knows the layers before it.
  const json all = printed("show" + text + "-s rollout --layer all -f json"),
             one = printed("show" + text + "-s rollout --layer 2 -f json");
  CHECK(all["layers.2.rollout"] == one["rollout"]);
  const json row = printed("show" + text +
                           "-s value_norms --layer 1 --head 3 --query ' lord' "
                           "--key 0-2 -f json");
  const json norms = printed("show" + text + "-s value_norms --layer 1 -f json")["value_norms"];
  CHECK(row["value_norms"]["shape"] == json({3}));
  for (std::size_t s = 0; s < 3; ++s)
    CHECK(row["value_norms"]["data"][s] == norms["data"][3][5][s]);
  const Result csv = shell("\"$MHA\" show" + text + "-s received --layer 1 --head 4 -f csv");
  CHECK_THAT(csv.out, Contains("layer,stage,batch,head,row,col,value,row_token,col_token\n"
                               "1,received,,,4,0,") &&
                          Contains(", lord"));
  const Folder folder;
  CHECK(shell("\"$MHA\" dump" + text + "-s rollout --layer 0-1 -o " + folder.path("r.json")).code ==
        0);
  const json dumped = json::parse(folder.read("r.json"));
  CHECK(dumped["layers.1.rollout"]["data"] == all["layers.1.rollout"]["data"]);
  CHECK(shell("\"$MHA\" show" + text + "-s divergence --layer 1 -f npy")
            .out.starts_with("\x93NUMPY"));
  const Result map = shell("\"$MHA\" map" + text + "-s rollout --layer 0,3");
  CHECK_THAT(map.out, Contains("L3") && Contains("␣lord") && Contains("down: query, across: key"));
  CHECK(
      shell("\"$MHA\" map" + text + "-s divergence --layer all -o " + folder.path("d.svg")).code ==
      0);
  CHECK(folder.read("d.svg").starts_with("<svg"));
  // Saved maps are enough for what is made of weights alone.
  const Result saved =
      shell("\"$MHA\" dump" + text + "-s weights --layer 1 -o " + folder.path("w.npy") +
            " && \"$MHA\" show weights=" + folder.path("w.npy") + " -s divergence -f json");
  CHECK(saved.code == 0);
  CHECK(json::parse(saved.out)["divergence"]["shape"] == json({6, 6}));
}

TEST_CASE("flow: a file each layer, text and head") {
  const Folder folder;
  const std::string two = " data/bard-gpt2 --text ' my love, my lord' --text 'the king is' ";
  const auto numbers = [&](const std::string& file, const std::string& name) {
    return json::parse(folder.read(file))[name];
  };
  const auto done = [&](const std::string& line, const std::string& path) {
    const Result result = shell("\"$MHA\" " + line + " -o '" + folder.path(path) + "'");
    INFO(line << "\n" << result.err);
    CHECK(result.code == 0);
  };
  done("dump" + two + "-s rollout", "all.json");
  done("dump" + two + "-s rollout", "r{layer}-{batch}.json");
  done("show" + two + "-s value_norms --layer 1 -f json", "v{head}.json");
  const json rollout = numbers("all.json", "layers.2.rollout")["data"],
             norms = printed("show" + two + "-s value_norms --layer 1 -f json")["value_norms"];
  CHECK(numbers("r2-0.json", "rollout")["data"] == rollout[0]);
  for (std::size_t t = 0; t < 3; ++t) // of the text alone, without padding
    for (std::size_t s = 0; s < 3; ++s)
      CHECK(numbers("r2-1.json", "rollout")["data"][t][s] == rollout[1][t][s]);
  CHECK(numbers("v5.json", "value_norms")["data"][0] == norms["data"][0][5]);
  CHECK_FALSE(folder.has("v6.json"));
  // Pictures of one run have one scale, each a title of its own.
  done("map" + two + "-s rollout --layer 0-1", "m{layer}.svg");
  CHECK_THAT(folder.read("m0.svg"), Contains("layer 0<"));
  CHECK_THAT(folder.read("m1.svg"), Contains("layer 1<"));
  const auto scale = [&](const std::string& file) { // the numbers beside the bar of colours
    std::string beside, svg = folder.read(file);
    for (std::size_t at = 0; (at = svg.find(">0.", at)) != std::string::npos; ++at)
      beside += svg.substr(at + 1, svg.find('<', at) - at);
    return beside;
  };
  done("map" + text + "-s value_norms --layer 1", "n{head}.svg");
  done("map" + text + "-s value_norms --layer 1 --head 1", "alone1.svg");
  done("map" + text + "-s value_norms --layer 1 --head 2", "alone2.svg");
  CHECK(scale("n1.svg") == scale("n2.svg"));
  CHECK(scale("alone1.svg") != scale("alone2.svg"));
}

TEST_CASE("flow: beside other stages, and in references") {
  const Folder folder;
  const json both = printed("show" + text + "-s weights,rollout --layer 1 -f json"),
             one = printed("show" + text + "-s rollout --layer 1 -f json");
  CHECK(both["rollout"] == one["rollout"]);
  CHECK(both["weights"]["shape"] == json({6, 6, 6}));
  const std::string saved = folder.path("r.npz");
  REQUIRE(
      shell("\"$MHA\" dump" + text + "-s rollout,value_norms,divergence --layer all -o " + saved)
          .code == 0);
  const std::string diff = "\"$MHA\" diff" + text + "--against " + saved;
  CHECK(shell(diff).code == 0);
  // Every layer's rollout has the numbers of those before: a patch in one shows in all after it.
  const Result patched = shell(diff + " -f json --patch 'layers.1.weights[2] = 0.1'");
  CHECK(patched.code == 1);
  const json found = json::parse(patched.out);
  CHECK(found["verdict"] == "differs");
  CHECK(found.dump().find("\"rollout\"") != std::string::npos);
  // Of layers from files, one after the other from the first on.
  const std::string files =
      "data/induction --layer 0-1 'X=data/induction/hidden.npz:layers.{layer}' ";
  const json of_files = printed("show " + files + "-s rollout,weights_mean -f json");
  const json mean = of_files["layers.1.weights_mean"]["data"],
             first = of_files["layers.0.rollout"]["data"],
             second = of_files["layers.1.rollout"]["data"];
  for (std::size_t t = 0; t < mean.size(); ++t)
    for (std::size_t s = 0; s < mean.size(); ++s) {
      double sum = 1, expected = 0;
      for (const json& weight : mean[t]) sum += weight.get<double>();
      for (std::size_t k = 0; k < mean.size(); ++k)
        expected += (mean[t][k].get<double>() + (t == k ? 1 : 0)) / sum * first[k][s].get<double>();
      CHECK(second[t][s].get<double>() == Approx(expected).margin(1e-9));
    }
}

TEST_CASE("flow: a reference is compared to its last key, and by the layers that it is made of") {
  const Folder folder;
  const std::string file = folder.path("r.json"), other = folder.path("other.json");
  const auto altered = [&](const std::string& layer, const std::string& stage, std::size_t from_end,
                           const std::string& more = "") {
    REQUIRE(shell("\"$MHA\" dump " + layer + " -s " + stage + " -o " + file).code == 0);
    json all = json::parse(std::ifstream(file));
    json* row = all[stage].is_object() ? &all[stage]["data"] : &all[stage];
    while ((*row)[0].is_array()) row = &row->back();
    (*row)[row->size() - from_end] = (*row)[row->size() - from_end].get<double>() + 0.5;
    std::ofstream(other) << all;
    return shell("\"$MHA\" diff " + layer + " --against " + other + more);
  };
  for (const char* stage : {"weights_mean", "value_norms", "value_norms_sum", "received"}) {
    INFO(stage);
    CHECK(altered("data/sources.json", stage, 1).code == 1); // more keys than queries
    CHECK(altered("data/sources.json", stage, 2).code == 1);
  }
  const Result received = altered("data/quickstart.json", "received", 1);
  CHECK_THAT(received.out, Contains("1 of 6 numbers: head 1.") && Contains("h1 k2"));
  // What a dump has of weights that it gives is not made again.
  REQUIRE(shell("\"$MHA\" dump data/quickstart.json -s weights,rollout -o " + file).code == 0);
  const Result same = shell("\"$MHA\" diff " + file + " --against " + file);
  CHECK(same.code == 2);
  CHECK_THAT(same.out, Contains("it is made of weights, which are given here"));
  // Of a later layer alone the others' are not known; the names of other tools are.
  const std::string files = "data/induction 'X=data/induction/hidden.npz:layers.{layer}' ";
  REQUIRE(shell("\"$MHA\" dump " + files + "--layer 0-1 -s weights,rollout -o " + file).code == 0);
  const Result later = shell("\"$MHA\" diff " + files + "--layer 1 --against " + file);
  CHECK(later.code == 2);
  CHECK_THAT(later.out, Contains("weights  equal") && Contains("a rollout begins at layer 0"));
  // A diagnosis does not count it.
  const Result judged =
      shell("\"$MHA\" diagnose " + files + "--layer 0 --against " + file + " --strict");
  CHECK(judged.code == 2);
  CHECK_THAT(judged.err, Contains("not compared") && Contains("which are judged"));
}

TEST_CASE("flow: --resume begins anew where a layer before has changed") {
  const Folder folder;
  const std::string x = folder.path("x{layer}.npz"), out = folder.path("l{layer}.npz");
  const auto put = [&](int layer, const std::string& from) {
    REQUIRE(shell("\"$MHA\" dump data/induction --layer " + from +
                  " X=data/induction/hidden.npz:layers." + from + " -s x -o " +
                  folder.path("x" + std::to_string(layer) + ".npz"))
                .code == 0);
  };
  put(0, "0"), put(1, "1");
  const std::string dump = "\"$MHA\" dump data/induction --layer 0-1 'X=" + x +
                           ":x' -s rollout -o '" + out + "' --resume";
  REQUIRE(shell(dump).code == 0);
  CHECK_THAT(shell(dump).err, Contains("were skipped"));
  put(0, "1");
  CHECK_THAT(shell(dump).err, !Contains("were skipped"));
}

TEST_CASE("flow: what it is not made for is refused") {
  for (const auto& [arguments, expected] : {
           std::pair<std::string, std::string>("show" + text + "-s divergence --layer 1 --query 1",
                                               "divergence has no query axis"),
           {"show" + text + "-s rollout --layer 1 --head 1", "rollout has no head axis"},
           {"show" + text + "-s rollout --layer 1 --batch 0", "rollout has no batch axis"},
           {"show" + text + "-s rollout --layer 9", "there is no layer 9"},
           {"dump" + text + "-s rollout -o 'a{head}.npy'", "rollout has no head axis for {head}"},
           {"map" + text + "-s rollout -o 'a{lyer}.png'", "{lyer} is not a placeholder"},
           {"dump" + text + "-s rollout --part 1/2 -o a.npz", "without parts"},
           {"show" + text + "--patch 'layers.1.rollout = 0'", "patch those: weights"},
           {"show data/induction -s rollout --layer 1 X=data/induction/hidden.npz:layers.1",
            "a rollout begins at layer 0"},
           {"map" + text + "-s rollout,weights --layer 1", "one stage"},
           {"map" + text + "-s rollout --pool max", "--pool has no effect"},
           {"map data/bard-gpt2 -s rollout --layer 0-1", "input"},
       }) {
    const Result result = shell("\"$MHA\" " + arguments);
    INFO(arguments << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(expected));
  }
}
