#include <mha/layer/stage.hpp>

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

TEST_CASE("info: lists tensors with type, shape and range, and where settings come from") {
  Folder folder;
  const std::string path = folder.write("layer.json", small_layer_json());
  const Result result = run({"info", path});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("3 × 4") && Contains("float64") && Contains("num_heads") &&
                             Contains("by default:"));
  CHECK_THAT(run({"info", path, "--scale", "0.3"}).out, Contains("--scale"));
}

TEST_CASE("info: a checkpoint of several layers is listed without choosing one") {
  const Result result = run({"info", "data/induction"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("q_proj.weight") && Contains("--layer"));
  const json parsed = json::parse(run({"info", "data/induction", "-f", "json"}).out);
  CHECK(parsed["layers"].size() == 2);
  CHECK(parsed["layers"][1]["heads"] == 4);
  CHECK(parsed["layers"][1]["d_k"] == 16);
  for (const std::string option : {"", "all", "0-1"}) {
    std::vector<std::string> words{"info", "data/induction"};
    if (!option.empty()) words.insert(words.end(), {"--layer", option});
    INFO("--layer '" << option << "'");
    CHECK_THAT(run(words).out,
               Contains("1      LLaMA  4 × 16                4       64  float32") &&
                   Contains("model.layers.1.self_attn."));
    words.emplace_back("--headers"); // no number is read, so no layer is made
    CHECK_THAT(run(words).out, !Contains("4 × 16") && Contains("model.layers.1.self_attn."));
  }
  CHECK(parsed["layer"].is_null());
}

TEST_CASE("info: the chosen layer, as JSON") {
  const Result result = run({"info", "data/induction", "--layer", "1",
                             "X=data/induction/hidden.npz:layers.1", "-f", "json"});
  REQUIRE(result.code == 0);
  const json parsed = json::parse(result.out);
  CHECK(parsed["layer"]["id"] == 1);
  bool causal = false, X = false;
  for (const json& setting : parsed["settings"])
    causal |= setting["name"] == "causal" && setting["value"] == "true";
  for (const json& part : parsed["parts"])
    X |= part["name"] == "X" && part["shape"] == json({33, 64});
  CHECK(causal);
  CHECK(X);
}

TEST_CASE("info: files that are no layer are listed, with the reason") {
  Folder folder;
  const std::string path =
      folder.write("other.json", R"({"temperature": [20.5, "NaN", "-Infinity"]})");
  const Result result = run({"info", path});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("temperature") && Contains("NaN") && Contains("±inf") &&
                             Contains("no layer can be loaded"));
}

TEST_CASE("info: a broken file is an error") {
  Folder folder;
  const Result result = run({"info", folder.write("layer.npz", "PK\x03\x04 no archive")});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
}

TEST_CASE("stages: the table, for eyes and for documents") {
  const Result table = run({"stages"});
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Contains("weights") && Contains("H × T × S"));
  const Result markdown = run({"stages", "-f", "markdown"});
  CHECK_THAT(markdown.out, Catch::StartsWith("# Stages\n") && Contains("| `weights` | H, T, S |") &&
                               Contains("| `attn_weights` | `scaled` or `weights` |"));
  // docs/stages.md is this page: `mha-inspect stages --format markdown > docs/stages.md`.
  std::ifstream page(mha::test::source_folder() + "/docs/stages.md");
  CHECK(markdown.out == std::string(std::istreambuf_iterator<char>(page), {}));
  const json parsed = json::parse(run({"stages", "-f", "json"}).out);
  CHECK(parsed.size() == mha::stage_count);
}

TEST_CASE("stages: with the shapes of a layer") {
  Folder folder;
  const std::string path = folder.write("layer.json", small_layer_json());
  CHECK_THAT(run({"stages", path}).out, Contains("2 × 3 × 3"));
  const json parsed = json::parse(run({"stages", path, "-f", "json"}).out);
  const auto shape_of = [&](const char* stage) {
    for (const json& one : parsed)
      if (one["name"] == stage) return one["shape"];
    return json("none");
  };
  CHECK(shape_of("weights") == json({2, 3, 3}));
  CHECK(shape_of("q_norm").is_null());
}

TEST_CASE("info: what is worth a look is listed, and an error with --strict") {
  const Folder folder;
  const std::string path = folder.write("layer.json", R"({"num_heads": 1, "X": [[1, 2], [3, 4]],
    "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]], "W_v": [[1, 0], [0, 1]], "scale": 1,
    "mask": [[true, true], [false, true]]})");
  const Result table = run({"info", path});
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Catch::Contains("worth a look\n") && Catch::Contains("later keys only") &&
                            Catch::Contains("not 1/√d_k"));
  const nlohmann::json object = nlohmann::json::parse(run({"info", path, "-f", "json"}).out);
  REQUIRE(object["checks"].size() == 2);
  CHECK(object["checks"][0]["check"] == "mask.inverted");
  CHECK(object["checks"][1]["check"] == "scale");
  const Result strict = run({"info", path, "--strict"});
  CHECK(strict.code == 2);
  CHECK(one_line(strict.err));
  CHECK_THAT(strict.err, Catch::Contains("later keys only") && Catch::Contains("--strict"));
  // The other commands compute; the numbers are not theirs to judge.
  CHECK(run({"show", path, "--strict"}).code == 0);
  CHECK(run({"info", "data/quickstart.json", "--strict"}).code == 0);
  CHECK(run({"info", path, "--headers"}).out.find("worth a look") == std::string::npos);
}

TEST_CASE("info: a layer of weights alone may have the weight of its input's norm") {
  const Folder folder;
  const std::string path =
      folder.write("layer.json", R"({"num_heads": 1, "input_norm": "rms", "norm.weight": [1, 2],
                        "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]]})");
  const Result info = run({"info", path});
  CHECK(info.code == 0);
  CHECK_THAT(info.out, Contains("norm.weight") && Contains("input norm rms"));
  CHECK(run({"show", path, "X=" + folder.write("X.json", "[[1, 2], [3, 4]]")}).code == 0);
}
