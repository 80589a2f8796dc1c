// What a comparison promises: by what the reference has, under which name and in which shape.

#include <mha/compare/verdict.hpp>

#include "support/run.hpp"
#include <mha/compare/names.hpp>
#include <mha/compare/settle.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace mha;

namespace {

std::string json_of(const Tensor& tensor) {
  std::string numbers;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = value_at(tensor, i);
    numbers +=
        (i > 0 ? "," : "") + (std::isfinite(value) ? fmt::format("{}", value) : "\"-Infinity\"");
  }
  return fmt::format(R"({{"shape": [{}], "dtype": "float64", "data": [{}]}})",
                     fmt::join(tensor.shape(), ","), numbers);
}

/// Heads of 3 on a d_model of 4, 5 tokens, 2 heads: no two sizes are alike.
std::string layer_json() {
  const auto numbers = [](std::size_t rows, std::size_t columns, std::size_t seed) {
    std::string text = "[";
    for (std::size_t i = 0; i < rows; ++i) {
      text += i > 0 ? ",[" : "[";
      for (std::size_t j = 0; j < columns; ++j)
        text += fmt::format("{}{}", j > 0 ? "," : "",
                            static_cast<double>((i * 7 + j * 5 + seed * 3) % 11) / 8 - 0.6);
      text += "]";
    }
    return text + "]";
  };
  return fmt::format(R"({{"num_heads": 2, "causal": true, "X": {}, "W_q": {}, "W_k": {}, "W_v": {},
    "W_o": {}}})",
                     numbers(5, 4, 0), numbers(4, 6, 1), numbers(4, 6, 2), numbers(4, 6, 3),
                     numbers(6, 4, 4));
}

struct Judged {
  test::Folder folder;
  std::string path = folder.write("layer.json", layer_json());
  LoadedLayer loaded = load(path);

  static LoadedLayer load(const std::string& path, const std::string& more = "") {
    Request request;
    request.sources = {path};
    if (!more.empty()) request.sources.push_back(more);
    request.results_given = true;
    return Sources(request).load("");
  }
  Tensor value(Stage stage) const { return trace(loaded.layer, {stage}).value(stage); }
  /// A reference of these tensors.
  std::string file(const std::vector<std::pair<std::string, Tensor>>& tensors,
                   const std::string& name = "ref.json") const {
    std::string text;
    for (const auto& [tensor, numbers] : tensors)
      text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", tensor, json_of(numbers));
    return folder.write(name, "{" + text + "}");
  }
  Outcome of(const LoadedLayer& ours, const std::string& reference,
             const std::vector<Stage>& stages = {}) const {
    Reference read = read_reference(ours.layer, {reference}, "");
    if (!stages.empty()) choose(read, stages);
    settle(ours.layer, read);
    Diff found = diff(ours.layer, read);
    mark_same_tensors(ours, found);
    return outcome_of(ours.layer, read, found, {false, stages});
  }
  Outcome of(const std::vector<std::pair<std::string, Tensor>>& tensors,
             const std::vector<Stage>& stages = {}) const {
    return of(loaded, file(tensors), stages);
  }
};

/// Every number larger.
Tensor moved(const Tensor& tensor) {
  Tensor other = copy_of(view_of(tensor));
  for (double& x : other.as_mutable<double>()) x += 0.25;
  return other;
}

/// One row more.
Tensor longer(const Tensor& tensor) {
  Shape shape = tensor.shape();
  shape[shape.size() > 1 ? shape.size() - 2 : 0] += 1;
  Tensor other(DType::f64, shape);
  for (double& x : other.as_mutable<double>()) x = 0.5;
  return other;
}

std::string told(const Outcome& outcome) {
  return fmt::format("{}, compared {}, not compared {}", name_of(outcome.verdict),
                     joined_names(outcome.compared),
                     joined_texts(outcome.not_compared, "; ", &NotCompared::text));
}

} // namespace

TEST_CASE_METHOD(Judged,
                 "verdict: every name of every stage is compared, and a wrong number seen") {
  const StageSet available = available_stages(loaded.layer);
  std::size_t names = 0;
  for (const auto& [name, stages] : result_words())
    for (Stage stage : stages) {
      if (!contains(available, stage) || is_of_model(stage)) continue;
      const std::string word(name);
      const Tensor theirs = value(stage);
      INFO(word << " as " << name_of(stage));
      const Outcome right = of({{word, theirs}});
      INFO(told(right));
      REQUIRE(right.compared.size() == 1);
      const bool input = right.compared[0] == Stage::x;
      CHECK(right.only_inputs == input);
      CHECK(right.verdict == (input ? Verdict::incomplete : Verdict::equal));
      CHECK(right.not_compared.empty());
      CHECK(of({{word, moved(theirs)}}).verdict == Verdict::differs);
      // Beside one that agrees, and under a prefix.
      CHECK(of({{"output", value(Stage::output)}, {"blocks.0.attn." + word, moved(theirs)}})
                .verdict != Verdict::equal);
      ++names;
    }
  CHECK(names > 40);
}

TEST_CASE_METHOD(Judged, "verdict: another shape under any name is a difference, said which") {
  const StageSet available = available_stages(loaded.layer);
  const Tensor fine = value(Stage::concat);
  for (const auto& [name, stages] : result_words()) {
    const std::string word(name);
    if (stages.size() != 1 || !contains(available, stages[0]) || stages[0] == Stage::concat)
      continue;
    const Outcome alone = of({{word, longer(value(stages[0]))}});
    INFO(word << ": " << told(alone));
    CHECK(alone.verdict == Verdict::differs);
    CHECK(alone.compared.empty());
    REQUIRE(alone.not_compared.size() == 1);
    CHECK(alone.not_compared[0].name == word);
    CHECK(alone.not_compared[0].misshapen == stages[0]);
    CHECK(alone.not_compared[0].reason.find("in this layer") != std::string::npos);
    CHECK(of({{word, longer(value(stages[0]))}, {"concat", fine}}).verdict == Verdict::differs);
  }
}

TEST_CASE_METHOD(Judged, "verdict: what has a stage's name, or nearly, and was not compared") {
  const Tensor output = value(Stage::output), weights = value(Stage::weights);
  struct Case {
    std::string name;
    Tensor numbers;
    std::string reason; ///< "": it is no stage, and nobody misses it
  };
  const Tensor few(DType::f64, {2, 2});
  const Case cases[]{
      {"wieghts", weights, "is it weights?"},
      {"ouptut", output, "is it output?"},
      {"logsumexpp", value(Stage::logsumexp), "is it logsumexp?"},
      {"attn.head_outt", value(Stage::head_out), "is it head_out?"},
      {"q_rope", value(Stage::q), "this layer has no q_rope"},
      {"capped", value(Stage::scores), "this layer has no capped"},
      {"layer.biased", value(Stage::scores), "this layer has no biased"},
      {"probs", moved(weights), "weights is there by its own name, with other numbers"},
      {"probs", weights, ""},
      {"loss", few, ""},
      {"scale", few, ""},
      {"W_q", few, ""},
      {"my_mask", few, ""},
      {"model.layers.0.mlp.down_proj.weight", few, ""},
  };
  for (const Case& one : cases) {
    const Outcome outcome = of({{"output", output}, {"weights", weights}, {one.name, one.numbers}});
    INFO(one.name << ": " << told(outcome));
    CHECK(outcome.verdict == (one.reason.empty() ? Verdict::equal : Verdict::incomplete));
    CHECK(outcome.compared.size() == 2);
    REQUIRE(outcome.not_compared.size() == (one.reason.empty() ? 0 : 1));
    if (!one.reason.empty()) CHECK(outcome.not_compared[0].name == one.name);
    if (!one.reason.empty()) CHECK(outcome.not_compared[0].reason == one.reason);
    // A difference comes first.
    CHECK(of({{"output", moved(output)}, {"weights", weights}, {one.name, one.numbers}}).verdict ==
          Verdict::differs);
    // Asked for by name, nothing else is missed.
    CHECK(of({{"output", output}, {"weights", weights}, {one.name, one.numbers}}, {Stage::output})
              .verdict == Verdict::equal);
  }
}

TEST_CASE_METHOD(Judged, "verdict: of inputs alone there is none") {
  const Tensor X = value(Stage::x);
  for (const char* name : {"X", "x", "hidden_states"}) {
    const Outcome outcome = of({{name, X}});
    INFO(name << ": " << told(outcome));
    CHECK(outcome.only_inputs);
    CHECK(outcome.verdict == Verdict::incomplete);
    CHECK(exit_code_of(outcome.verdict) == 2);
    CHECK(of({{name, X}}, {Stage::x}).verdict == Verdict::equal); // --stage asks for it
  }
  // Given queries, keys and values are the inputs; what is computed from them is not.
  const std::string given =
      file({{"q", value(Stage::q)}, {"k", value(Stage::k)}, {"v", value(Stage::v)}}, "given.json");
  const LoadedLayer heads = load(given);
  const auto copied = [&](const std::vector<Stage>& stages) {
    std::vector<std::pair<std::string, Tensor>> list;
    for (Stage stage : stages)
      list.emplace_back(name_of(stage), trace(heads.layer, {stage}).value(stage));
    return of(heads, file(list, "copy.json"));
  };
  const Outcome inputs = copied({Stage::q, Stage::k, Stage::v});
  CHECK(inputs.compared.size() == 3);
  CHECK(inputs.verdict == Verdict::incomplete);
  CHECK(copied({Stage::q, Stage::head_out}).verdict == Verdict::equal);
}

TEST_CASE_METHOD(Judged, "verdict: the same tensor on both sides counts for nothing") {
  const std::vector<std::pair<std::string, Tensor>> all{
      {"q", value(Stage::q)}, {"k", value(Stage::k)}, {"v", value(Stage::v)}};
  const std::string given = file(all, "given.json");
  const LoadedLayer heads = load(given);
  CHECK(of(heads, given).compared.empty());
  CHECK(of(heads, given).verdict == Verdict::incomplete);
  CHECK(of(heads, folder.path("./given.json")).compared.empty()); // however the path is written
  // Beside what was computed, in the same file.
  std::vector<std::pair<std::string, Tensor>> more = all;
  more.emplace_back("lse", trace(heads.layer, {Stage::logsumexp}).value(Stage::logsumexp));
  const std::string both = file(more, "both.json");
  Request request;
  for (const char* name : {"q", "k", "v"})
    request.sources.push_back(fmt::format("{0}={1}:{0}", name, both));
  const LoadedLayer bound = Sources(request).load("");
  const Outcome outcome = of(bound, both);
  INFO(told(outcome));
  CHECK(outcome.compared == std::vector{Stage::logsumexp});
  CHECK(outcome.verdict == Verdict::equal);
  CHECK(of(bound, fmt::format("q={}:q", both)).compared.empty());
  // The same numbers in another file are another's.
  CHECK(of(bound, file(more, "other.json")).compared.size() == 4);
}

TEST_CASE_METHOD(Judged, "verdict: --stage leaves what it names, and tells what is not there") {
  const std::string path =
      file({{"weights", value(Stage::weights)}, {"lse", longer(value(Stage::logsumexp))}});
  Reference read = read_reference(loaded.layer, {path}, "");
  CHECK(choose(read, {Stage::output, Stage::weights, Stage::logsumexp}) ==
        std::vector{Stage::output});
  CHECK(read.stages.size() == 1);
  CHECK(read.has_misshapen());
  choose(read, {Stage::weights});
  CHECK(read.not_compared.empty());
}

TEST_CASE("verdict: a difference wins over what is missing, and that over agreement") {
  const Verdict all[]{Verdict::equal, Verdict::incomplete, Verdict::differs};
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < 3; ++b) CHECK(worse_of(all[a], all[b]) == all[std::max(a, b)]);
  CHECK(exit_code_of(Verdict::equal) == 0);
  CHECK(exit_code_of(Verdict::differs) == 1);
  CHECK(exit_code_of(Verdict::incomplete) == 2);
}

TEST_CASE_METHOD(Judged, "verdict: another number of heads is one sentence") {
  for (const auto& [heads, said] :
       {std::pair("6", "the reference has 6 heads, this layer 2: give --num-heads 6"),
        {"3", "the reference has 3 heads, this layer 2: give --num-heads 3"}}) {
    Request request;
    request.sources = {path};
    request.settings = {{"num_heads", heads}};
    const Layer other = Sources(request).load("").layer;
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (Stage stage :
         {Stage::x, Stage::q, Stage::k, Stage::weights, Stage::head_out, Stage::output})
      tensors.emplace_back(name_of(stage), trace(other, {stage}).value(stage));
    const Reference read = read_reference(loaded.layer, {file(tensors)}, "");
    CHECK(read.about_heads() == said);
    CHECK(read.has_misshapen()); // some of them, packed, have other heads' shapes
  }
  CHECK(read_reference(loaded.layer, {file({{"output", longer(value(Stage::output))}})}, "")
            .about_heads()
            .empty());
}
