#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct DiagnoseLayer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  /// What the layer gives with some options, as another implementation's results.
  std::string reference(std::vector<std::string> options,
                        const std::string& name = "ref.npz") const {
    options.insert(options.begin(), {"dump", path, "--quiet", "-o", folder.path(name)});
    const Result result = run(options);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return folder.path(name);
  }
  Result diagnose(std::vector<std::string> options) const {
    options.insert(options.begin(), {"diagnose", path});
    return run(options);
  }
  json found(std::vector<std::string> options, int code = 0) const {
    options.insert(options.end(), {"--format", "json"});
    const Result result = diagnose(options);
    INFO(result.err);
    REQUIRE(result.code == code);
    CHECK(result.err.empty());
    return json::parse(result.out);
  }
};

} // namespace

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: names a missing scale, the option, and the cure") {
  const std::string ref = reference({"--scale", "1"});
  const json d = found({"--against", ref});
  CHECK(d["explained"] == true);
  CHECK(d["equal"] == false);
  REQUIRE(d["changes"].size() == 1);
  CHECK(d["changes"][0]["id"] == "scale.missing");
  CHECK(d["changes"][0]["stage"] == "scaled");
  CHECK(d["changes"][0]["option"] == "--scale 1");
  CHECK(d["changes"][0]["change"] == "the reference does not scale the scores");
  CHECK(d["error_before"] > 0.01);
  CHECK(d["error_after"] == 0);
  const Result text = diagnose({"--against", ref});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("One change explains the reference"));
  CHECK_THAT(text.out, Contains("--scale 1 gives the reference's numbers here"));
  CHECK_THAT(text.out, Contains("mha-inspect diff " + path + " --scale 1 --against " + ref));
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: the output alone will do") {
  const std::string ref = reference({"--no-causal", "-s", "output"}, "out.npy");
  const json d = found({"--against", "output=" + ref});
  REQUIRE(d["changes"].size() == 1);
  CHECK(d["changes"][0]["id"] == "causal.missing");
  CHECK(d["changes"][0]["option"] == "--no-causal");
  CHECK(d["stages"].size() == 1);
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: two changes, and the command that shows both") {
  const std::string ref = reference({"--no-causal", "--scale", "1"});
  const Result text = diagnose({"--against", ref});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("2 changes together explain the reference"));
  CHECK_THAT(text.out, Contains("--scale 1 --no-causal --against"));
  CHECK(run({"diff", path, "--quiet", "--scale", "1", "--no-causal", "--against", ref}).code == 0);
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: the option for a transposed weight names its file") {
  const json layer = json::parse(small_layer_json());
  const std::string turned = reference({"W_v=" + path + ":W_v@OI"});
  const json d = found({"--against", turned});
  REQUIRE(d["changes"].size() == 1);
  CHECK(d["changes"][0]["id"] == "weight.transposed.v");
  const std::string option = d["changes"][0]["option"];
  CHECK(option == "W_v=" + path + ":W_v@OI");
  CHECK(run({"diff", path, option, "--against", turned}).code == 0);
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: the order of a fused weight is an option") {
  json layer = json::parse(small_layer_json());
  json fused = json::array();
  for (std::size_t i = 0; i < layer["W_q"].size(); ++i) {
    json row = json::array();
    for (const char* part : {"W_q", "W_k", "W_v"})
      for (const json& value : layer[part][i]) row.push_back(value);
    fused.push_back(row);
  }
  for (const char* name : {"W_q", "W_k", "W_v", "b_q", "b_k", "b_v"}) layer.erase(name);
  layer["W_qkv"] = fused;
  path = folder.write("fused.json", layer.dump());
  for (const auto& [word, id] : {std::pair("vkq", "weight.order.VKQ"),
                                 {"kvq", "weight.order.KVQ"},
                                 {"vqk", "weight.order.VQK"}}) {
    const json d = found({"--against", reference({"--qkv-order", word})});
    REQUIRE(d["changes"].size() == 1);
    CHECK(d["changes"][0]["id"] == id);
    CHECK(d["changes"][0]["option"] == std::string("--qkv-order ") + word);
  }
}

TEST_CASE_METHOD(DiagnoseLayer,
                 "diagnose: exit code 1 and the first stage where nothing explains") {
  const std::string noise =
      folder.write("noise.json", R"({"output": [[5, -3, 2, 1], [0.5, 9, 4, -7], [1, 2, -8, 3]]})");
  const json d = found({"--against", noise}, 1);
  CHECK(d["explained"] == false);
  CHECK(d["changes"].empty());
  CHECK(d["unexplained"] == "output");
  CHECK(d["at"].size() == 2);
  const Result text = diagnose({"--against", noise});
  CHECK(text.code == 1);
  CHECK_THAT(text.out, Contains("Nothing explains it: output is the first stage that differs"));
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: equal is explained") {
  const json d = found({"--against", reference({})});
  CHECK(d["equal"] == true);
  CHECK(d["explained"] == true);
  CHECK(d["changes"].empty());
  CHECK_THAT(diagnose({"--against", folder.path("ref.npz")}).out, Contains("nothing to explain"));
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: what was read otherwise is told") {
  const std::string ref = reference({"-s", "weights"}, "weights.npy");
  const Result told = diagnose({"--against", "weights=" + ref + "@HST"});
  CHECK(told.code != 2);
  CHECK_THAT(told.err, Contains("note: read as HST: weights"));
  const Result strict = diagnose({"--against", "weights=" + ref + "@HST", "--strict"});
  CHECK(strict.code == told.code); // it was stated: no doubt
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: what stays open after a change is told") {
  reference({"--scale", "1", "-s", "scaled,output"}, "ref.json");
  json ref = json::parse(folder.read("ref.json"));
  json& output = ref["output"].is_object() ? ref["output"]["data"] : ref["output"];
  output[1][2] = output[1][2].get<double>() + 3;
  const std::string odd = folder.write("odd.json", ref.dump());
  const Result text = diagnose({"--against", odd});
  CHECK(text.code == 1);
  CHECK_THAT(text.out, Contains("Part of the difference is explained"));
  CHECK_THAT(text.out, Contains("scale.missing"));
  CHECK_THAT(text.out, Contains("query 1 'cat'"));
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: a saved tensor that is wrong by itself blames no step") {
  reference({}, "ref.json");
  for (const char* stage : {"weights", "scores", "q"}) {
    json ref = json::parse(folder.read("ref.json"));
    json& values = ref[stage].is_object() ? ref[stage]["data"] : ref[stage];
    double noise = 0.3;
    for (json& head : values)
      for (json& row : head)
        for (json& value : row) value = noise = 3.7 * noise * (1 - noise); // chaos
    const json d = found({"--against", folder.write("odd.json", ref.dump())}, 1);
    INFO(stage);
    CHECK(d["explained"] == false);
    CHECK(d["changes"].empty());
    CHECK(d["unexplained"] == stage);
    CHECK_THAT(diagnose({"--against", folder.path("odd.json")}).out,
               Contains("agrees again") && Contains(std::string("was saved as ")));
  }
}

TEST_CASE_METHOD(DiagnoseLayer, "diagnose: refuses to run without a reference, or with no stage") {
  const Result without = diagnose({});
  CHECK(without.code == 2);
  CHECK_THAT(without.err, Contains("diagnose needs --against REF"));
  const Result nothing = diagnose({"--against", folder.write("other.json", R"({"loss": [1, 2]})")});
  CHECK(nothing.code == 2);
  CHECK(one_line(nothing.err));
}

TEST_CASE("diagnose: several layers are an object each") {
  const Result result =
      run({"diagnose", "data/induction", "--layer", "all", "--quiet",
           "X=data/induction/hidden.npz:layers.{layer}", "--scale", "d_model", "--against",
           "data/induction/expected/layer{layer}.npz", "-f", "json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const json layers = json::parse(result.out);
  for (const char* layer : {"layers.0", "layers.1"})
    CHECK(layers[layer]["changes"][0]["id"] == "scale.constant");
}
