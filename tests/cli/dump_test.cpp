#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct Layer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  Result dump(std::vector<std::string> options) const {
    options.insert(options.begin(), {"dump", path});
    return run(options);
  }
  /// What `show` prints of the layer, or of a file.
  static json shown(const std::string& source, const std::string& stage,
                    std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"show", source, "-s", stage, "-f", "json"});
    const Result result = run(options);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out).begin().value()["data"];
  }
  json computed(const std::string& stage) const { return shown(path, stage); }
};

const std::string induction = "data/induction",
                  hidden = "X=data/induction/hidden.npz:layers.{layer}";

} // namespace

TEST_CASE_METHOD(Layer, "dump: every stage, in every format, reads back to the same numbers") {
  for (const std::string name : {"all.npz", "all.safetensors", "all.json", "folder/"}) {
    const Result result = dump({"-o", folder.path(name)});
    INFO(name << ": " << result.err);
    REQUIRE(result.code == 0);
    CHECK(result.out.empty());
    const std::string bare = name.back() == '/' ? name.substr(0, name.size() - 1) : name;
    CHECK(shown("weights=" + folder.path(bare) + ":weights", "weights") == computed("weights"));
    CHECK(shown("output=" + folder.path(bare) + ":output", "output") == computed("output"));
  }
}

TEST_CASE_METHOD(Layer, "dump: one stage as .npy on standard output") {
  const Result result = dump({"-s", "weights", "-o", "-"});
  REQUIRE(result.code == 0);
  CHECK(result.out.substr(1, 5) == "NUMPY");
  folder.write("weights.npy", result.out);
  CHECK(shown(folder.path("weights.npy"), "weights") == computed("weights"));
  CHECK(run({"show", path, "-s", "weights", "-f", "npy"}).out == result.out);
  CHECK_THAT(dump({"-o", "-"}).err, Contains("standard output takes one stage"));
}

TEST_CASE_METHOD(Layer, "dump: needs a place to write to") {
  const Result result = dump({});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("dump needs --output"));
}

TEST_CASE_METHOD(Layer, "dump: one file a head, whose axis is dropped") {
  REQUIRE(dump({"-s", "weights", "-o", folder.path("w{head}.json")}).code == 0);
  const json all = computed("weights");
  for (const std::size_t h : {std::size_t{0}, std::size_t{1}}) {
    const json one = json::parse(folder.read(h == 0 ? "w0.json" : "w1.json"))["weights"];
    CHECK(one["shape"] == json({3, 3}));
    CHECK(one["data"] == all[h]);
  }
  CHECK_FALSE(folder.has("w2.json"));
}

TEST_CASE_METHOD(Layer, "dump: writes the selection only") {
  REQUIRE(dump({"-s", "weights", "--query", "1,2", "-o", folder.path("w.json")}).code == 0);
  CHECK(json::parse(folder.read("w.json"))["weights"]["shape"] == json({2, 2, 3}));
  CHECK_THAT(dump({"-s", "output", "--head", "0", "-o", folder.path("o.npz")}).err,
             Contains("no head axis"));
  CHECK_FALSE(folder.has("o.npz"));
}

TEST_CASE_METHOD(Layer, "dump: rounds to --dump-dtype") {
  REQUIRE(dump({"-s", "weights", "--dump-dtype", "f16", "-o", folder.path("w.safetensors")}).code ==
          0);
  const Result info = run({"info", folder.path("w.safetensors"), "--format", "json"});
  CHECK(json::parse(info.out)["files"][0]["tensors"][0]["dtype"] == "float16");
  CHECK(dump({"-s", "weights", "--dump-dtype", "f8", "-o", folder.path("x.npz")}).code == 2);
}

TEST_CASE("dump: numbers beyond --dump-dtype are told, or an error") {
  const Folder folder;
  const std::string layer = folder.write(
      "layer.json", R"({"scale": 1, "q": [[[300, 1], [1, 1]]], "k": [[[300, 1], [1, 1]]]})");
  const std::vector<std::string> options{"dump",         layer, "-s", "scores,weights",
                                         "--dump-dtype", "f16", "-o", folder.path("half.npz")};
  const Result told = run(options);
  CHECK(told.code == 0);
  CHECK_THAT(told.err, Contains("scores: 1 number is beyond float16 and became infinite"));
  std::vector<std::string> strict = options;
  strict.emplace_back("--strict"), strict[7] = folder.path("none.npz");
  CHECK(run(strict).code == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path("none.npz")));
  std::vector<std::string> wide = options;
  wide[5] = "f32";
  CHECK(run(wide).err.empty());
}

TEST_CASE("dump: what is read is not written over") {
  const Folder folder;
  const std::string layer = folder.write("layer.json", small_layer_json());
  for (const char* command : {"dump", "show"}) {
    const Result result = run({command, layer, "-s", "weights", "-f",
                               std::string(command) == "dump" ? "json" : "npy", "-o", layer});
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("layer.json: is read, and would be replaced"));
  }
  CHECK(folder.read("layer.json") == small_layer_json());
}

TEST_CASE("dump: several layers share a file as layers.N.STAGE, or get one each") {
  Folder folder;
  REQUIRE(run({"dump", induction, "--layer", "all", hidden, "-s", "weights,output", "-o",
               folder.path("all.npz")})
              .code == 0);
  const Result info = run({"info", folder.path("all.npz"), "--headers", "--format", "json"});
  CHECK_THAT(info.out, Contains("\"layers.0.weights\"") && Contains("\"layers.1.output\""));
  REQUIRE(run({"dump", induction, "--layer", "0-1", hidden, "-s", "weights", "-o",
               folder.path("l{layer}.npy")})
              .code == 0);
  CHECK(folder.names() == std::vector<std::string>{"all.npz", "l0.npy", "l1.npy"});
}

TEST_CASE("dump: the same bytes with any number of threads") {
  Folder folder;
  for (const std::string threads : {"1", "3"})
    REQUIRE(run({"dump", induction, "--layer", "1", hidden, "-j", threads, "-o",
                 folder.path("t" + threads + ".safetensors")})
                .code == 0);
  CHECK(folder.read("t1.safetensors") == folder.read("t3.safetensors"));
}

TEST_CASE_METHOD(Layer,
                 "dump: a folder that is not there is an error, and nothing is left behind") {
  const Result result = dump({"-o", folder.path("no/such/all.npz")});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK(folder.names() == std::vector<std::string>{"layer.json"});
}

TEST_CASE_METHOD(Layer,
                 "convert: a layer keeps its results, settings and labels in another format") {
  for (const std::string name : {"layer.npz", "layer.safetensors", "copy.json"}) {
    const Result result = run({"convert", path, "-o", folder.path(name)});
    INFO(name << ": " << result.err);
    REQUIRE(result.code == 0);
    CHECK(shown(folder.path(name), "output") == computed("output"));
    CHECK_THAT(run({"show", folder.path(name), "-s", "row_sum", "-f", "csv"}).out,
               Contains(",cat,"));
  }
}

TEST_CASE("convert: a layer of a checkpoint gets canonical names") {
  Folder folder;
  const std::string layer = folder.path("layer.npz");
  REQUIRE(run({"convert", induction, "--layer", "1", hidden, "-o", layer}).code == 0);
  const Result info = run({"info", layer});
  CHECK_THAT(info.out, Contains("W_q") && Contains("b_q") && Contains("num_heads = 4") &&
                           Contains("causal = true"));
  const std::vector<std::string> stage{"-s", "output", "-f", "csv", "--matrix"};
  std::vector<std::string> before{"show", induction, "--layer", "1", hidden}, after{"show", layer};
  before.insert(before.end(), stage.begin(), stage.end());
  after.insert(after.end(), stage.begin(), stage.end());
  CHECK(run(before).out == run(after).out);
}

TEST_CASE("makes the folder that a path of many files names", "[cli]") {
  const Layer layer;
  const Result result =
      layer.dump({"-s", "weights", "-o", layer.folder.path("maps/of {head}/w.npy")});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(std::filesystem::exists(layer.folder.path("maps/of 1/w.npy")));
}

TEST_CASE("dump: a text's numbers and tokens are in the file, and disturb no reader") {
  Folder folder;
  const std::vector<std::string> one{"--text", "To be, or not to"},
      two{"--text", "To be", "--text", "O Romeo, Romeo!"};
  const json known = json::parse(
      run({"tokens", "data/bard-llama", "--text", "To be, or not to", "-f", "json"}).out);
  for (const std::vector<std::string>& texts : {one, two})
    for (const std::string name : {"t.npz", "t.safetensors", "t.json", "t"}) {
      const std::string path = folder.path((texts.size() == 2 ? "one-" : "two-") + name);
      std::vector<std::string> words{"dump", "data/bard-llama", "--layer", "1",
                                     "-s",   "weights,output",  "-o",      path};
      words.insert(words.end(), texts.begin(), texts.end());
      INFO(path);
      REQUIRE(run(words).code == 0);
      // As a source: labels are there, and nothing is passed over.
      const Result shown = run({"show", path, "-s", "weights", "-f", "csv"});
      INFO(shown.err);
      CHECK(shown.code == 0);
      CHECK(shown.err.find("ids") == std::string::npos);
      CHECK(shown.err.find("skipped") == std::string::npos);
      CHECK_THAT(shown.out, Contains(texts.size() == 2 ? ", to" : " Rome"));
      CHECK(run({"convert", path, "-o", folder.path("c.npz"), "--quiet"}).code == 0);
      // As a reference.
      std::vector<std::string> diff{"diff", "data/bard-llama", "--layer", "1", "--against", path};
      diff.insert(diff.end(), texts.begin(), texts.end());
      const Result compared = run(diff);
      CHECK(compared.code == 0);
      CHECK(compared.err.empty());
      CHECK(compared.out.find("ids") == std::string::npos);
    }
  const json file = json::parse(folder.read("one-t.json"));
  CHECK(file["ids"]["data"] == known["ids"]);
  CHECK(file["tokens"] == known["tokens"]);
  const json batch = json::parse(folder.read("two-t.json"));
  CHECK(batch["ids"]["shape"] == json({2, 8}));
  CHECK(batch["lengths"]["data"] == json({3, 8}));
  CHECK(batch["tokens"][0][3] == "");
}

TEST_CASE("dump: labels of a selection stand at its rows and columns") {
  Folder folder;
  REQUIRE(run({"dump", "data/bard-llama", "--text", "To be, or not to", "--layer", "0", "-s",
               "weights", "--query", "3-4", "--key", "0-2", "-o", folder.path("some.json")})
              .code == 0);
  const json some = json::parse(folder.read("some.json"));
  CHECK(some["tokens"].size() == 2);
  CHECK(some["key_tokens"].size() == 3);
  CHECK(run({"show", folder.path("some.json")}).code == 0);
}

TEST_CASE("dump: more than a gigabyte that was not asked for is refused before it begins") {
  Folder folder;
  std::string rows;
  for (int t = 0; t < 3400; ++t) rows += t ? ",[1,0]" : "[1,0]";
  const std::string path = folder.write("long.json", "{\"num_heads\": 2, \"X\": [" + rows + "]}");
  const Result refused = run({"dump", path, "-o", folder.path("all.npz")});
  CHECK(refused.code == 2);
  CHECK(one_line(refused.err));
  CHECK_THAT(refused.err, Contains(" GB: choose some with --stage"));
  CHECK_THAT(refused.err, Contains("--all-stages"));
  CHECK_FALSE(folder.has("all.npz"));
  std::string ids = "1";
  for (int t = 1; t < 1400; ++t) ids += ",7";
  // The model's own stages are no layer.
  CHECK_THAT(run({"dump", "data/bard-llama", "--ids", ids, "-q", "-o", folder.path("all.npz")}).err,
             Contains("all stages of 4 layers are "));
  CHECK(run({"dump", path, "-s", "row_sum", "-o", folder.path("some.npz")}).code == 0);
  CHECK(run({"dump", path, "--query", "0", "-o", folder.path("query.npz")}).code == 0);
}
