#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct BenchLayer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  Result bench(std::vector<std::string> options) const {
    if (std::ranges::find(options, "--repeat") == options.end())
      options.insert(options.begin(), {"--repeat", "3"});
    options.insert(options.begin(), {"bench", path});
    return run(options);
  }
  json measured(std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--format", "json"});
    const Result result = bench(options);
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(result.err.empty());
    return json::parse(result.out);
  }
};

/// What every object must say, whatever the machine.
void check_consistent(const json& object) {
  for (const char* key : {"median_s", "best_s", "runs", "threads", "operations", "gflops",
                          "peak_gflops", "peak_fraction", "parts", "stages"}) {
    INFO(key);
    CHECK(object.contains(key));
  }
  const double median = object["median_s"], best = object["best_s"], gflops = object["gflops"];
  CHECK(best > 0);
  CHECK(best <= median);
  CHECK(object["peak_gflops"] > 0);
  CHECK(gflops * 1e9 * median == Approx(object["operations"].get<double>()));
  CHECK(gflops / object["peak_gflops"].get<double>() ==
        Approx(object["peak_fraction"].get<double>()));
  REQUIRE(object["parts"].size() == 3);
  for (const char* part : {"projections", "attention", "output"}) CHECK(object["parts"][part] >= 0);
}

} // namespace

TEST_CASE_METHOD(BenchLayer, "bench: one JSON object whose numbers agree with each other") {
  const json object = measured();
  check_consistent(object);
  CHECK(object["runs"] == 3);
  CHECK(object["stages"] == json({"output"}));
}

TEST_CASE_METHOD(BenchLayer, "bench: counts the products that the kept stages need") {
  // 3 tokens, 4 wide, 2 heads of 2. A projection: 2 · 3 · 4 · 4 = 96. Visible pairs of the causal
  // layer: 1 + 2 + 3 = 6 a head, so q kᵀ, and α v: 2 · 2 · 6 · 2 = 48.
  const auto operations = [&](std::vector<std::string> options) {
    return measured(std::move(options))["operations"].get<double>();
  };
  CHECK(operations({}) == 4 * 96 + 2 * 48);
  CHECK(operations({"--no-causal", "--quiet"}) == 4 * 96 + 2 * 72);
  CHECK(operations({"--stage", "q"}) == 96);
  CHECK(operations({"--stage", "weights"}) == 2 * 96 + 48);
  // Scores are there for every key, the causal mask comes after them.
  CHECK(operations({"--stage", "scores"}) == 2 * 96 + 72);
  CHECK(operations({"--window-left", "0"}) == 4 * 96 + 2 * 24);
  CHECK(operations({"--stage", "x"}) == 0);
}

TEST_CASE_METHOD(BenchLayer, "bench: the least that each stage needs, beside its time") {
  const json object = measured({"-s", "weights,output"}), &stages = object["by_stage"];
  // The sizes above; 8 bytes a number. Operations, exponentials, bytes read and kept.
  const std::tuple<const char*, int, int, int, int> works[] = {
      {"q", 96, 0, 128, 0},      {"k", 96, 0, 128, 0},       {"v", 96, 0, 128, 0},
      {"scores", 48, 0, 96, 0},  {"weights", 0, 12, 0, 144}, {"head_out", 48, 0, 96, 0},
      {"output", 96, 0, 128, 96}};
  double bounds = 0;
  for (const auto& [stage, operations, exponentials, read, kept] : works) {
    INFO(stage);
    REQUIRE(stages.contains(stage));
    const json& found = stages[stage];
    CHECK(found["operations"] == operations);
    CHECK(found["exponentials"] == exponentials);
    CHECK(found["read_bytes"] == read);
    CHECK(found["kept_bytes"] == kept);
    const double bound = found["bound_s"], seconds = found["seconds"];
    CHECK(bound > 0);
    CHECK(found["reached"].get<double>() == Approx(bound / seconds));
    bounds += bound;
  }
  CHECK(object["bound_s"].get<double>() == Approx(bounds));
  CHECK(object["machine"]["read_gb_s"].size() == 1); // all of it is in the second cache
}

TEST_CASE_METHOD(BenchLayer, "bench: --stage says what is kept, --threads how many compute") {
  CHECK(measured({"-s", "weights,output"})["stages"] == json({"weights", "output"}));
  CHECK(measured({"--threads", "2"})["threads"] == 2);
  CHECK(measured({"--dtype", "f32"})["runs"] == 3);
}

TEST_CASE_METHOD(BenchLayer, "bench: without --repeat there are at least five runs") {
  const Result result = run({"bench", path, "--format", "json"});
  REQUIRE(result.code == 0);
  CHECK(json::parse(result.out)["runs"] >= 5);
}

TEST_CASE_METHOD(BenchLayer, "bench: a table with a row a part") {
  const Result result = bench({});
  REQUIRE(result.code == 0);
  for (const char* word :
       {"T 3", "projections", "attention", "output", "all", "median", "best", "GFLOP/s",
        "of the peak", "reached", "exponentials",
        "bound of all stages: ", "3 runs · 1 thread · kept: output", "multiply-adds"})
    CHECK_THAT(result.out, Contains(word));
}

TEST_CASE("bench: several layers are a row each, or an object keyed by layers.N") {
  const std::vector<std::string> all{"bench",
                                     "data/induction",
                                     "--layer",
                                     "all",
                                     "X=data/induction/hidden.npz:layers.{layer}",
                                     "--repeat",
                                     "2",
                                     "--format"};
  std::vector<std::string> arguments = all;
  arguments.emplace_back("json");
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  const json object = json::parse(result.out);
  REQUIRE(object.size() >= 2);
  for (std::size_t i = 0; i < object.size(); ++i)
    check_consistent(object.at("layers." + std::to_string(i)));

  arguments.back() = "table";
  const std::string table = run(arguments).out;
  CHECK_THAT(table, Contains("layer") && Contains("\n0 ") && Contains("\n1 ") && Contains("runs"));
}

TEST_CASE_METHOD(BenchLayer, "bench: writes a file whose extension decides the format") {
  REQUIRE(bench({"-o", folder.path("speed.json")}).code == 0);
  check_consistent(json::parse(folder.read("speed.json")));
  REQUIRE(bench({"-o", folder.path("speed.txt")}).code == 0);
  CHECK_THAT(folder.read("speed.txt"), Contains("projections"));
}

TEST_CASE_METHOD(BenchLayer, "bench: --timings adds its line to standard error") {
  const Result result = bench({"--timings", "--format", "json"});
  REQUIRE(result.code == 0);
  CHECK(one_line(result.err));
  const json timings = json::parse(result.err);
  CHECK(timings.contains("compute_s"));
  CHECK(timings["layers_made"] == 1);
  // Two runs that are not timed, too.
  CHECK(timings["layers_computed"] == json::parse(result.out)["runs"].get<int>() + 2);
}

TEST_CASE_METHOD(BenchLayer,
                 "bench: fails for no runs, for stages that are not there, for formats") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--repeat", "0"}, "--repeat is 0: at least 1 expected"},
      {{"--repeat", "many"}, "--repeat is 'many': a whole number expected"},
      {{"--stage", "wieghts"}, "did you mean 'weights'?"},
      {{"--stage", "q_rope"}, "this layer has no q_rope"},
      {{"--format", "gif"}, "table, csv, tsv, json, ndjson, markdown"},
  };
  for (const auto& [options, message] : cases) {
    const Result result = bench(options);
    INFO(message);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
}

TEST_CASE("bench: a text times the whole pass, layer by layer") {
  const Result result =
      run({"bench", "data/bard-gpt2", "--text", "To be, or not to be", "--repeat", "3"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  for (const char* word :
       {"\n0 ", "\n3 ", "logits", "tokens/s", "3 runs", "around", "read", "all: without read"})
    CHECK_THAT(result.out, Contains(word));
  const json object = json::parse(run({"bench", "data/bard-llama", "--ids", "1,2,3", "--ids", "4",
                                       "--repeat", "3", "--format", "json"})
                                      .out);
  CHECK(object["tokens"] == 4); // padding is none
  CHECK(object["runs"] == 3);
  CHECK(object["tokens_per_s"].get<double>() == Approx(4 / object["median_s"].get<double>()));
  REQUIRE(object["layers"].size() == 4);
  // Of one run, the parts are timed within the whole; layers are read before it.
  const json once = json::parse(
      run({"bench", "data/bard-llama", "--ids", "1,2,3", "--repeat", "1", "--format", "json"}).out);
  double parts = once["logits_s"];
  for (const json& layer : once["layers"])
    for (const char* part : {"read_s", "projections_s", "attention_s", "output_s", "around_s"}) {
      CHECK(layer[part].get<double>() >= 0);
      if (part != std::string_view("read_s")) parts += layer[part].get<double>();
    }
  CHECK(parts <= once["median_s"].get<double>());
  // A chosen layer is timed alone, as ever; what is around it when its result is asked for.
  const json alone = json::parse(run({"bench", "data/bard-gpt2", "--text", "a", "--layer", "1",
                                      "-s", "resid_post", "--repeat", "2", "-f", "json"})
                                     .out);
  CHECK(alone["parts"]["around"].get<double>() > 0);
}

TEST_CASE_METHOD(BenchLayer, "bench: where the time goes, by stage") {
  const json object = measured({"-s", "weights"});
  const json& seconds = object["stage_seconds"];
  CHECK(seconds.contains("q"));
  CHECK(seconds.contains("weights"));
  CHECK_FALSE(seconds.contains("output"));
  CHECK_THAT(bench({}).out, Contains("stage") && Contains("head_out"));
}
