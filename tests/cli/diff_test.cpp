#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct DiffLayer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  /// A dump of the layer, computed with some options.
  std::string dump(const std::string& name, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"dump", path, "-q", "-o", folder.path(name)});
    const Result result = run(options);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return folder.path(name);
  }
  Result diff(std::vector<std::string> options) const {
    options.insert(options.begin(), {"diff", path});
    return run(options);
  }
  json told(std::vector<std::string> options, int code) const {
    options.insert(options.end(), {"--format", "json"});
    const Result result = diff(options);
    INFO(result.err);
    REQUIRE(result.code == code);
    return json::parse(result.out);
  }
};

/// The text without its line ends.
std::string flat(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

json row_of(const json& object, const std::string& stage) {
  for (const json& row : object["stages"])
    if (row["stage"] == stage) return row;
  FAIL("no row of " << stage);
  return {};
}

} // namespace

TEST_CASE_METHOD(DiffLayer, "diff: a difference that the softmax does not see is named as such") {
  dump("ref.json", {"-s", "scores,weights"});
  const json reference = json::parse(folder.read("ref.json"));
  const auto against = [&](double row, double one) {
    json other = reference;
    std::size_t t = 0;
    for (json& head : other["scores"]["data"])
      for (json& query : head)
        for (json& score : query) {
          ++t;
          score = score.get<double>() + row * static_cast<double>(t / 3) + (t == 5 ? one : 0);
        }
    // Of weights that follow from another score, nothing of the kind is printed.
    if (one != 0) other["weights"]["data"][0][1][0] = 0.5;
    return flat(diff({"--against", folder.write("other.json", other.dump())}).out);
  };
  CHECK_THAT(against(0.25, 0),
             Contains("weights agrees all the same: what differs in scores has no "
                      "effect there"));
  CHECK_THAT(against(0, 0.25), !Contains("all the same"));
  CHECK(diff({"--against", folder.path("other.json")}).code == 1);
}

TEST_CASE_METHOD(DiffLayer, "diff: a dump of the layer itself is equal") {
  for (const char* name : {"ref.npz", "ref.safetensors", "ref.json", "ref"}) {
    const std::string reference = dump(name);
    INFO(name);
    const json object = told({"--against", reference}, 0);
    CHECK(object["equal"] == true);
    CHECK(object["first"].is_null());
    CHECK(object["stages"].size() == 17);
    CHECK(object["stages"][0]["stage"] == "x");
    CHECK(object["stages"][16]["stage"] == "output");
    for (const json& row : object["stages"]) {
      CHECK(row["status"] == "equal");
      CHECK(row["mismatched"] == 0);
      CHECK(row["max_abs"] == 0);
      CHECK(row["cosine"] == 1);
    }
  }
  const Result table = diff({"--against", folder.path("ref.npz")});
  CHECK(table.code == 0);
  CHECK(table.err.empty());
  CHECK_THAT(table.out, Contains("T 3") && Contains("All stages match bit for bit."));
}

TEST_CASE_METHOD(DiffLayer, "diff: names the first step that differs, and what follows from it") {
  const std::string reference = dump("ref.npz", {"--scale", "0.5"});
  const json object = told({"--against", reference}, 1);
  CHECK(object["equal"] == false);
  CHECK(object["first"] == "scaled");
  for (const char* same : {"x", "q", "k", "v", "scores"})
    CHECK(row_of(object, same)["status"] == "equal");
  const json first = row_of(object, "scaled");
  CHECK(first["status"] == "first");
  CHECK(first["own"] == true);
  CHECK(first["from"] == json({"scores"}));
  CHECK(first["at"].size() == 3);
  CHECK(first["max_rel"].get<double>() == Approx(std::sqrt(2.0) - 1));
  CHECK(std::abs(first["ours"].get<double>() - first["reference"].get<double>()) ==
        Approx(first["max_abs"].get<double>()));
  CHECK(first["mismatched"].get<int>() > 0);
  for (const char* later : {"masked", "weights", "head_out", "output"}) {
    CHECK(row_of(object, later)["status"] == "inherited");
    CHECK(row_of(object, later)["own"] == false);
  }

  const Result table = diff({"--against", reference});
  CHECK(table.code == 1);
  CHECK_THAT(table.out, Contains("→  scaled") &&
                            Contains("scaled is the first step that differs") &&
                            Contains("Look at it: mha-inspect explain " + path + " --head "));
  CHECK_THAT(flat(table.out), Contains("Its inputs agree (scores)"));
  // The line that it tells can be run.
  const std::size_t at = table.out.find("explain ");
  const std::string line = table.out.substr(at, table.out.find('\n', at) - at);
  CHECK(shell("$MHA " + line).code == 0);
}

TEST_CASE_METHOD(DiffLayer, "diff: rounded to another type is close, or equal as that type") {
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    INFO(dtype);
    const std::string reference = dump("ref.safetensors", {"--dump-dtype", dtype});
    CHECK(told({"--against", reference}, 0)["equal"] == true);
    // Computed in another precision than it was stored in.
    CHECK(told({"--against", reference, "--dtype", "f32"}, 0)["equal"] == true);
  }
}

TEST_CASE_METHOD(DiffLayer, "diff: --atol and --rtol, for every stage or for one") {
  const std::string reference =
      dump("ref.npz", {"--scale", "0.7072", "-s", "scores,scaled,output"});
  CHECK(told({"--against", reference}, 1)["first"] == "scaled");
  CHECK(told({"--against", reference, "--rtol", "1e-3"}, 0)["equal"] == true);
  CHECK(told({"--against", reference, "--atol", "scaled:1e-2"}, 0)["equal"] == true);
  const json object = told({"--against", reference, "--rtol", "1e-9", "--rtol", "scaled:1e-3",
                            "--atol", "scores:5,output:0"},
                           0);
  CHECK(row_of(object, "scaled")["status"] == "close");
  CHECK(row_of(object, "scaled")["rtol"] == 1e-3);
  CHECK(row_of(object, "output")["rtol"] == 1e-9);
  CHECK(row_of(object, "scores")["atol"] == 5);
  CHECK(row_of(object, "output")["atol"] == 0);
}

TEST_CASE_METHOD(DiffLayer, "diff: single stages are bound, in any order of axes") {
  dump("weights.npy", {"-s", "weights"});
  const std::string z = dump("z.npy", {"-s", "head_out"});
  CHECK(
      told({"--against", "alpha=" + folder.path("weights.npy"), "--against", "z=" + z}, 0)["stages"]
          .size() == 2);
  CHECK(told({"--against", folder.path("weights.npy")}, 0)["first"].is_null());
  // Another order is reported; it was given, so --strict has no doubt.
  const std::vector<std::string> turned{"--against",
                                        "weights=" + folder.path("weights.npy") + "@HST"};
  CHECK_THAT(diff(turned).err, Contains("note: read as HST: weights"));
  std::vector<std::string> strict = turned;
  strict.emplace_back("--strict");
  CHECK(diff(strict).code == diff(turned).code);
  // (2, 3, 2) read as D, T, H is another array.
  CHECK(told({"--against", "head_out=" + z + "@DTH"}, 1)["first"] == "head_out");
}

TEST_CASE_METHOD(DiffLayer, "diff: two dumps are compared without weights") {
  const std::string a = dump("a.npz"), b = dump("b.npz", {"--scale", "0.5"});
  folder.write("copy.npz", folder.read("a.npz"));
  const Result same = run({"diff", a, "--against", folder.path("copy.npz"), "-f", "json"});
  CHECK(same.code == 0);
  CHECK(json::parse(same.out)["stages"].size() == 17);
  const Result other = run({"diff", a, "--against", b, "-f", "json"});
  REQUIRE(other.code == 1);
  const json object = json::parse(other.out);
  CHECK(object["first"] == "scaled");
  // The softmax is the softmax: these steps are called sound. W_o is not there.
  CHECK(row_of(object, "weights")["own"] == false);
  CHECK(row_of(object, "output")["own"].is_null());
  const Result table = run({"diff", a, "--against", b});
  CHECK_THAT(flat(table.out), Contains("cannot be decided without the layer's tensors"));
  CHECK_THAT(table.out, Contains("mha-inspect show scaled=" + a + ":scaled -s scaled"));
  const std::size_t at = table.out.find("show ");
  CHECK(shell("$MHA " + table.out.substr(at, table.out.find('\n', at) - at)).code == 0);
  // Only an output, only weights.
  const std::string out = dump("out.npz", {"-s", "output"});
  CHECK(run({"diff", out, "--against", b}).code == 1);
  const std::string again = dump("again.npz", {"-s", "output"});
  CHECK(run({"diff", out, "--against", again}).code == 0);
}

TEST_CASE("diff: several layers, and PyTorch's own numbers") {
  const std::vector<std::string> all{"diff",
                                     "data/induction",
                                     "--layer",
                                     "all",
                                     "X=data/induction/hidden.npz:layers.{layer}",
                                     "-q",
                                     "--against",
                                     "data/induction/expected/layer{layer}.npz"};
  std::vector<std::string> arguments = all;
  arguments.insert(arguments.end(), {"-f", "json"});
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  const json object = json::parse(result.out);
  REQUIRE(object.size() == 4);
  CHECK(object["verdict"] == "equal");
  for (const char* layer : {"layers.0", "layers.1"}) {
    CHECK(object[layer]["equal"] == true);
    CHECK(object[layer]["stages"].size() == 9);
  }
  const Result table = run(all);
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Contains("layer 0") && Contains("layer 1"));
  // One wrong layer is enough.
  arguments.insert(arguments.end(), {"--scale", "1"});
  CHECK(run(arguments).code == 1);
  // A file of several layers.
  const Folder folder;
  REQUIRE(run({"dump", "data/induction", "--layer", "all", all[4], "-q", "-s", "scores,output",
               "-o", folder.path("all.npz")})
              .code == 0);
  arguments = all;
  arguments.back() = folder.path("all.npz");
  CHECK(run(arguments).code == 0);
}

TEST_CASE_METHOD(DiffLayer, "diff: a stage that only the reference has is named where it matters") {
  const std::string reference = dump("ref.npz", {"--rope", "half"});
  const Result result = diff({"--against", reference});
  CHECK(result.code == 1);
  CHECK_THAT(flat(result.out),
             Contains("The reference also has q_rope and k_rope, which this layer does not have"));
  CHECK_THAT(result.out, Contains("not compared: q_rope (this layer has no q_rope)"));
}

TEST_CASE("diff: where tokens first would fit, too, the first difference says so") {
  // As many queries as heads.
  const Folder folder;
  const std::string layer = folder.write("layer.json", R"({"num_heads": 2,
    "X": [[1, 2, 3, 4], [2, 1, 0, 1]], "W_v": [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]],
    "W_q": [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]],
    "W_k": [[0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1]]})");
  const std::string z = folder.path("z.npz");
  REQUIRE(run({"dump", layer, "-s", "weights,head_out", "-o", z}).code == 0);
  CHECK(run({"diff", layer, "--against", z}).err.empty());
  const Result turned = run({"diff", layer, "--against", "z=" + z + ":head_out@THD"});
  CHECK(turned.code == 1);
  const std::string q = folder.write("q.json", R"({"q": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]})");
  CHECK_THAT(flat(run({"diff", layer, "--against", q}).out),
             Contains("also fits tokens first;") && Contains("--against q=FILE@AXES"));
}

TEST_CASE_METHOD(DiffLayer, "diff: fits a terminal of 80 columns, and highlights on one") {
  const std::string reference = dump("ref.npz", {"--scale", "0.5"});
  Setting narrow;
  narrow.env["COLUMNS"] = "80";
  const Result result = run({"diff", path, "--against", reference}, narrow);
  std::size_t line = 0, widest = 0;
  for (std::size_t i = 0; i < result.out.size(); ++i) {
    if (result.out[i] == '\n') {
      // Commands to copy are not wrapped.
      if (result.out.find("mha-inspect", i - line) > i) widest = std::max(widest, line);
      line = 0;
    } else if ((static_cast<unsigned char>(result.out[i]) & 0xC0) != 0x80) {
      ++line;
    }
  }
  CHECK(widest <= 80);
  CHECK_THAT(run({"diff", path, "--against", reference, "--color", "always"}).out,
             Contains("\x1b[1mscaled"));
}

TEST_CASE_METHOD(DiffLayer, "diff: writes a file whose extension decides the format") {
  const std::string reference = dump("ref.npz");
  REQUIRE(diff({"--against", reference, "-o", folder.path("diff.json")}).code == 0);
  CHECK(json::parse(folder.read("diff.json"))["equal"] == true);
  REQUIRE(diff({"--against", reference, "-o", folder.path("diff.txt")}).code == 0);
  CHECK_THAT(folder.read("diff.txt"), Contains("bit for bit"));
}

TEST_CASE_METHOD(DiffLayer, "diff: trouble is exit code 2, and one line that says what to do") {
  const std::string reference = dump("ref.npz");
  const std::string none = folder.write("none.json", R"({"loss": [1, 2]})");
  const std::string weights = dump("weights.npz", {"-s", "weights"});
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "diff needs --against REF"},
      {{"--against"}, "--against needs a value"},
      {{"--against", none}, "no stage of this layer is in it, but loss"},
      {{"--against", folder.path("refs.npz")}, "no such file; did you mean"},
      {{"--against", reference, "--against", weights}, "both are weights; bind the one"},
      {{"--against", "wieghts=" + reference}, "which of its tensors is wieghts?"},
      {{"--against", "wieghts=" + reference + ":weights"}, "did you mean 'weights'?"},
      {{"--against", "attn_x=" + reference + ":x"}, "'attn_x' is not a stage"},
      {{"--against", "head_out=" + reference + "@TBX"}, "axis 'X' is unknown"},
      {{"--against", reference, "--atol", "-1"}, "--atol is '-1': a number of at least 0 expected"},
      {{"--against", reference, "--rtol", "wieghts:1"}, "did you mean 'weights'?"},
      {{"--against", reference, "--atol", "weights:"}, "a number of at least 0 expected"},
      {{"--against", reference, "--format", "npy"}, "table, csv, tsv, json, ndjson, markdown"},
  };
  for (const auto& [options, message] : cases) {
    const Result result = diff(options);
    INFO(message << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
}

TEST_CASE_METHOD(DiffLayer, "diff: keys as GPT-2 keeps them, (H, d_k, T), where T is d_k") {
  json layer = json::parse(small_layer_json());
  layer["X"].erase(2), layer.erase("tokens");
  const std::string square = folder.write("square.json", layer.dump()); // two tokens, heads of two
  const Result dumped =
      run({"dump", square, "-q", "-s", "q,k,scores", "-o", folder.path("own.json")});
  REQUIRE(dumped.code == 0);
  json stages = json::parse(folder.read("own.json"));
  for (json& head : stages["k"]["data"]) std::swap(head[0][1], head[1][0]);
  const std::string turned = folder.write("turned.json", stages.dump());
  const Result result = run({"diff", square, "--against", turned});
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("read as BHDS"));
  CHECK(run({"diagnose", square, "--against", turned}).code == 0);
  // Maps are not turned: a map that agrees only so is another.
  stages = json::parse(folder.read("own.json"));
  for (json& head : stages["scores"]["data"]) std::swap(head[0][1], head[1][0]);
  CHECK(run({"diff", square, "--against", folder.write("maps.json", stages.dump())}).code == 1);
}

TEST_CASE_METHOD(DiffLayer, "diff: --exact says whether a difference is rounding") {
  const std::string port = "data/port/stages.safetensors";
  const auto exact = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"diff",
                                   "data/shakespeare",
                                   "--layer",
                                   "0",
                                   "X=data/shakespeare/hidden.npz:layers.0",
                                   "--against",
                                   port,
                                   "--exact",
                                   "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Result wrong = exact({});
  CHECK(wrong.code == 1);
  CHECK_THAT(wrong.out, Contains("ours − f64  ref − f64    ratio") && Contains("more than"));
  // The port computes in float64 and stores float32: half a unit in the last place at most.
  const Result right = exact({"--rope", "interleaved", "-f", "json"});
  CHECK(right.code == 0);
  const nlohmann::json told = nlohmann::json::parse(right.out);
  for (const auto& stage : told["stages"]) {
    INFO(stage.dump());
    CHECK(stage["exact"]["ratio"] < 1);
    CHECK(stage["exact"]["ours"] > 0);
    CHECK(stage["exact"]["ours"] < 1e-4);
    CHECK(stage["exact"]["reference"] <= stage["exact"]["ours"]);
  }
  CHECK_THAT(exact({"--dtype", "f64"}).err, Contains("--exact measures the distance of float32"));
}
