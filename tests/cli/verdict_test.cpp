// Exit code 0 of `diff` is a promise: what is compared, what is missed, and what a script reads.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct VerdictLayer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());
  json steps;

  VerdictLayer() {
    REQUIRE(run({"dump", path, "-q", "-o", folder.path("own.json")}).code == 0);
    steps = json::parse(folder.read("own.json"));
  }
  /// A reference of these stages of the layer's own, and what `edit` makes of them.
  template <class Edit>
  std::string reference(const std::vector<std::string>& stages, const Edit& edit) const {
    json some;
    for (const std::string& stage : stages) some[stage] = steps[stage];
    edit(some);
    return folder.write("ref.json", some.dump());
  }
  std::string reference(const std::vector<std::string>& stages) const {
    return reference(stages, [](json&) {});
  }
  Result diff(std::vector<std::string> options) const {
    options.insert(options.begin(), {"diff", path});
    return run(options);
  }
};

/// One number of a tensor of three axes.
void spoil(json& tensor) {
  tensor["data"][1][2][0] = tensor["data"][1][2][0].get<double>() + 0.5;
}

std::vector<std::string> names_of(const json& list) {
  std::vector<std::string> names;
  for (const json& one : list) names.push_back(one["name"]);
  return names;
}

std::string flat(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

} // namespace

TEST_CASE_METHOD(VerdictLayer, "diff: the verdict, the code, and what was compared") {
  struct Case {
    const char* what;
    std::vector<std::string> stages;
    void (*edit)(json&);
    std::vector<std::string> options;
    std::string verdict;
    std::size_t compared;
    std::vector<std::string> missed;
    std::string said; ///< on standard output, or on standard error where nothing is there
  };
  const auto none = [](json&) {};
  const Case cases[]{
      {"all",
       {"x", "weights", "output"},
       none,
       {},
       "equal",
       3,
       {},
       "All stages match bit for bit."},
      {"one", {"output"}, none, {}, "equal", 1, {}, "output matches bit for bit."},
      {"a number",
       {"x", "head_out"},
       [](json& j) { spoil(j["head_out"]); },
       {},
       "differs",
       2,
       {},
       "head 1, query 2"},
      {"the input",
       {"x"},
       none,
       {},
       "incomplete",
       1,
       {},
       "Only inputs were compared: the computation begins with x."},
      {"the input, asked for", {"x"}, none, {"-s", "x"}, "equal", 1, {}, "x matches bit for bit."},
      {"misspelt",
       {"output"},
       [](json& j) { j["wieghts"] = j["output"]; },
       {},
       "incomplete",
       1,
       {"wieghts"},
       "wieghts was not compared, so this is not agreement."},
      {"misspelt, not asked for",
       {"output"},
       [](json& j) { j["wieghts"] = j["output"]; },
       {"-s", "output"},
       "equal",
       1,
       {},
       "output matches"},
      {"misspelt, beside a difference",
       {"head_out"},
       [](json& j) { j["wieghts"] = j["head_out"], spoil(j["head_out"]); },
       {},
       "differs",
       1,
       {"wieghts"},
       "wieghts was not compared."},
      {"of another shape",
       {"output", "weights"},
       [](json& j) {
         j["attn_probs"] = {{1, 2}, {3, 4}}, j.erase("weights");
       },
       {},
       "differs",
       1,
       {"attn_probs"},
       "attn_probs has another shape in the reference, which counts as a difference."},
      {"a step that is not there",
       {"output"},
       [](json& j) { j["q_rope"] = j["output"]; },
       {},
       "incomplete",
       1,
       {"q_rope"},
       "this layer has no q_rope"},
      {"no stage",
       {"output"},
       [](json& j) {
         j["loss"] = {1, 2};
       },
       {},
       "equal",
       1,
       {},
       "skipped, not a stage: loss"},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    const std::string ref = reference(one.stages, one.edit);
    std::vector<std::string> options = one.options;
    options.insert(options.end(), {"--against", ref});
    const Result table = diff(options);
    const int code = one.verdict == "equal" ? 0 : one.verdict == "differs" ? 1 : 2;
    INFO(table.out << table.err);
    CHECK(table.code == code);
    CHECK_THAT(flat(table.out), Contains(one.said));
    options.insert(options.end(), {"-f", "json"});
    const Result machine = diff(options);
    CHECK(machine.code == code);
    const json object = json::parse(machine.out);
    CHECK(object["verdict"] == one.verdict);
    CHECK(object["equal"] == (one.verdict == "equal"));
    CHECK(object["compared"].size() == one.compared);
    CHECK(names_of(object["not_compared"]) == one.missed);
    // With --strict what is missed is an error, and nothing is printed.
    options.emplace_back("--strict");
    const Result strict = diff(options);
    CHECK(strict.code == (one.missed.empty() ? code : 2));
    CHECK(strict.out.empty() == !one.missed.empty());
  }
}

TEST_CASE_METHOD(VerdictLayer, "diff: --stage wants what it names") {
  const std::string ref = reference({"weights", "output"});
  const Result missing = diff({"--against", ref, "-s", "weights,head_out"});
  CHECK(missing.code == 2);
  CHECK(one_line(missing.err));
  CHECK_THAT(missing.err, Contains("head_out is not in it, which --stage asks for"));
  CHECK(diff({"--against", ref, "-s", "weights,output"}).code == 0);
  CHECK(diff({"--against", ref, "-s", "alpha"}).code == 0);
  CHECK_THAT(diff({"--against", ref, "-s", "wieghts"}).err, Contains("did you mean 'weights'?"));
  CHECK_THAT(run({"diff", path, path, "--weights", "-s", "weights"}).err, Contains("--stage"));
}

TEST_CASE_METHOD(VerdictLayer,
                 "diff: the same tensor on both sides is shown, and counts for nothing") {
  const std::string own = folder.path("own.json");
  std::vector<std::string> command{"diff"};
  for (const char* name : {"q", "k", "v"}) command.push_back(std::string(name) + "=" + own);
  command.insert(command.end(), {"--causal", "--against", own, "-f", "json"});
  const Result result = run(command);
  INFO(result.out << result.err);
  const json object = json::parse(result.out);
  for (const json& row : object["stages"]) {
    const std::string stage = row["stage"];
    const bool given = stage == "q" || stage == "k" || stage == "v";
    CHECK((row["status"] == "same tensor") == given);
    CHECK(std::ranges::count(object["compared"], row["stage"]) == (given ? 0 : 1));
  }
  const Result nothing = run({"diff", own, "--against", own});
  CHECK(nothing.code == 2);
  CHECK_THAT(flat(nothing.out), Contains("Nothing was compared"));
  folder.write("copy.json", folder.read("own.json"));
  CHECK(run({"diff", own, "--against", folder.path("copy.json")}).code == 0);
}

TEST_CASE_METHOD(VerdictLayer, "diff: where and by how much, in every form") {
  const std::string ref = reference({"q", "weights", "head_out"}, [](json& j) {
    for (const std::size_t query : {1U, 2U})
      j["head_out"]["data"][1][query][0] = j["head_out"]["data"][1][query][0].get<double>() * 1.5;
  });
  const Result table = diff({"--against", ref});
  CHECK_THAT(flat(table.out), Contains("It differs in 2 of 12 numbers: head 1, queries 1, 2.") &&
                                  Contains("2 numbers beyond 8 ulp of float64, at most"));
  const json row = json::parse(diff({"--against", ref, "-f", "json"}).out)["stages"][2];
  CHECK(row["stage"] == "head_out");
  CHECK(row["regions"] == json::parse(R"([{"heads": [[1, 1]], "rows": [[1, 2]]}])"));
  CHECK(row["regions_exact"] == true);
  CHECK(row["max_ulp"].get<double>() > 1e15);
  CHECK(row["beyond_ulp"] == json({2, 2, 2}));
  const std::string csv = diff({"--against", ref, "-f", "csv"}).out;
  CHECK(std::ranges::count(csv, '\n') == 4);
  CHECK_THAT(csv, Contains("\"head 1, queries 1, 2\"") && Contains("layer,stage,status,reason"));
}

TEST_CASE_METHOD(VerdictLayer, "diff: a reference that is a layer is computed") {
  json layer = json::parse(small_layer_json());
  const auto against = [&](const json& other, std::vector<std::string> options = {}) {
    options.insert(options.end(), {"--against", folder.write("other.json", other.dump())});
    return diff(options);
  };
  const Result same = against(layer);
  INFO(same.out << same.err);
  CHECK(same.code == 0);
  CHECK_THAT(same.err, Contains("other.json is a layer: its stages are computed"));
  // The options are this layer's, the file's settings the other's.
  const Result causal = against(layer, {"--no-causal"});
  CHECK(causal.code == 1);
  CHECK_THAT(causal.out, Contains("masked is the first step that differs"));
  layer["W_v"][0][0] = 17;
  CHECK_THAT(against(layer).out, Contains("v is the first step that differs"));
  layer = json::parse(small_layer_json());
  layer["num_heads"] = 1;
  const Result heads = against(layer);
  CHECK(heads.code == 1);
  CHECK_THAT(flat(heads.out),
             Contains("The reference has 1 head, this layer 2: give --num-heads 1."));
  CHECK(std::ranges::count(heads.err, '\n') < 4);
  // It lends what the other does not have, and reports it.
  layer = json::parse(small_layer_json());
  for (const char* name : {"X", "num_heads", "tokens"}) layer.erase(name);
  const Result lent = against(layer);
  INFO(lent.out << lent.err);
  CHECK(lent.code == 0);
  CHECK_THAT(lent.err, Contains("X and the heads are this layer's"));
  layer["W_o"] = {{1, 2}, {3, 4}};
  const Result broken = against(layer);
  CHECK(broken.code == 2);
  CHECK(one_line(broken.err));
  CHECK_THAT(broken.err, Contains("cannot be computed") && Contains("mha-inspect dump") &&
                             Contains("-o theirs.npz"));
  // diagnose finds what differs between the two.
  const Result found = run({"diagnose", path, "--no-causal", "--against",
                            folder.write("other.json", small_layer_json())});
  INFO(found.out << found.err);
  CHECK(found.code == 0);
  CHECK_THAT(found.out, Contains("--causal"));
}

TEST_CASE("diff: of a whole model, the layers that were asked for are demanded, and no others") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), ids = "65,300,12,7";
  const std::vector<std::string> model{"data/bard-gpt2", "--ids", ids};
  const auto with = [&](const char* command, std::vector<std::string> options) {
    options.insert(options.begin(), model.begin(), model.end());
    options.insert(options.begin(), command);
    return run(options);
  };
  REQUIRE(with("dump", {"-q", "-s", "weights,resid_post,logits", "-o", own}).code == 0);
  CHECK(with("diff", {"--against", own}).code == 0);
  const Result one = with("diff", {"--against", own, "--layer", "2"});
  CHECK(one.code == 0);
  CHECK_THAT(one.err, Contains("layers 0, 1, 3 of the reference were not requested"));
  CHECK(with("diff", {"--against", own, "-s", "weights"}).code == 0);
  CHECK(with("diff", {"--against", own, "-s", "mlp_out"}).code == 2);
  const json all = json::parse(with("diff", {"--against", own, "-f", "json"}).out);
  CHECK(all["verdict"] == "equal");
  CHECK(all["layers.1"]["verdict"] == "equal");
  CHECK(all["model"]["compared"] == json({"logits"}));
  // A checkpoint is no reference: the two commands that make one of it run.
  const Result checkpoint = with("diff", {"--against", "data/bard-gpt2"});
  CHECK(checkpoint.code == 2);
  const std::size_t at = checkpoint.err.find("mha-inspect dump"),
                    end = checkpoint.err.find(" -o theirs.npz");
  REQUIRE(end != std::string::npos);
  CHECK(shell("$MHA " + checkpoint.err.substr(at + 12, end - at - 12) + " -q -o " +
              folder.path("theirs.npz"))
            .code == 0);
  CHECK(with("diff", {"--against", folder.path("theirs.npz")}).code == 0);
}
