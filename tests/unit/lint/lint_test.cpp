#include <mha/lint/lint.hpp>

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <fstream>
#include <set>

using namespace mha;
using Catch::Contains;
using Words = std::vector<std::string>;

namespace {

/// What lint finds in the sources, as "check: text".
Words findings(const Words& sources,
               const std::vector<std::pair<std::string, std::string>>& settings = {},
               const std::string& layer = "") {
  RunRequest request;
  request.sources = sources;
  request.settings = settings;
  request.layer = layer;
  const Sources model(request);
  LintSubject subject;
  std::optional<LoadedLayer> loaded;
  try {
    loaded.emplace(model.load(model.chosen()[0]));
    subject.loaded = &*loaded;
  } catch (const Error&) {
    // what remains can be looked at
  }
  for (Sources::SourceTensor& entry : model.tensors_of(model.chosen()[0]))
    subject.tensors.push_back({entry.name, entry.source, entry.tensor, summary_of(entry.tensor)});
  Words list;
  for (const Suspicion& finding : lint(subject))
    list.push_back(fmt::format("{}: {}", finding.check, finding.text.in_words(Wording::program)));
  return list;
}

/// Three tokens of width 4, 2 heads of 2, with something more in the file.
std::string layer_with(const std::string& more, const std::string& name = "layer.json") {
  static const test::Folder folder;
  return folder.write(name, std::string(R"({"num_heads": 2,
    "X": [[0.5, -1, 2, 0.25], [1.5, 0.75, -0.5, 1], [-2, 0.125, 0.375, 3]],
    "W_q": [[1, 0.5, -0.25, 0], [0.5, 2, 0, 1], [-1, 0, 0.75, 0.5], [0.25, -0.5, 1, 1.5]],
    "W_k": [[0.5, 1, 0, -0.5], [1, -1, 0.5, 0.25], [0, 0.25, 1, 2], [-0.75, 0.5, 0.125, 1]])") +
                                (more.empty() ? "" : ",\n") + more + "}");
}

/// What is found in that layer.
Words with(const std::string& more) {
  return findings({layer_with(more)});
}

void check_one(const Words& found, const std::string& check, const std::string& text) {
  INFO(fmt::format("{}", fmt::join(found, "\n")));
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with(check + ": "));
  CHECK_THAT(found[0], Contains(text));
}

const std::string lower = "[[true, false, false], [true, true, false], [true, true, true]]";
const std::string upper = "[[true, true, true], [false, true, true], [false, false, true]]";
const std::string strict = "[[false, true, true], [false, false, true], [false, false, false]]";

} // namespace

TEST_CASE("lint: the layers of the project have nothing worth a look") {
  CHECK(findings({in_source("data/quickstart.json")}).empty());
  CHECK(findings({in_source("data/bilinear.json")}).empty());
  CHECK(findings({in_source("data/columns.json")}).empty());
  for (const char* model : {"data/induction", "data/shakespeare"})
    for (const char* layer : {"0", "1"})
      CHECK(findings({in_source(model), "X=" + in_source(model) + "/hidden.npz:layers." + layer},
                     {}, layer)
                .empty());
  CHECK(with("").empty());
}

TEST_CASE("lint: a mask's buffer called bias") {
  check_one(with(R"("bias": [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]])"), "mask.named_bias",
            "the lower triangle of ones");
  CHECK(with(R"("bias": [[0, -1, -2], [1, 0, -1], [2, 1, 0]])").empty());
  CHECK(with(R"("bias": [[1, 0, 0], [1, 1, 0], [1, 0, 1]])").empty());
  // Of another length the layer cannot be made, and that is why.
  const Words found = with(R"("bias": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])");
  check_one(found, "mask.named_bias", "give causal");
}

TEST_CASE("lint: a fused weight whose thirds are not q, k, v") {
  const auto fused = [](std::size_t columns, const std::string& more) {
    static const test::Folder folder;
    std::string rows;
    for (int row = 0; row < 4; ++row) {
      std::string numbers;
      for (std::size_t i = 0; i < columns; ++i) numbers += fmt::format("{}{}", i ? "," : "", i + 1);
      rows += fmt::format("{}[{}]", row ? "," : "", numbers);
    }
    return folder.write(
        "fused.json",
        fmt::format(R"({{"X": [[1, 2, 3, 4], [4, 3, 2, 1]], "W_qkv": [{}]{}}})", rows, more));
  };
  check_one(findings({fused(12, R"(, "num_heads": 4, "num_kv_heads": 1)")}), "weight.thirds",
            "8 columns of queries, 2 of keys, 2 of values");
  CHECK(findings({fused(12, R"(, "num_heads": 2)")}).empty());
  check_one(findings({fused(8, R"(, "num_heads": 2)")}), "weight.thirds",
            "has 8 columns, which are not three equal parts");
}

TEST_CASE("lint: a square weight from elsewhere") {
  const test::Folder folder;
  const std::string square =
      folder.write("w.json", R"({"v_proj": [[1,2,3,4],[5,6,7,8],[9,1,2,3],[4,5,6,7]],
                                 "W_v": [[1,2,3,4],[5,6,7,8],[9,1,2,3],[4,5,6,7]],
                                 "narrow": [[1,2],[5,6],[9,1],[4,5]]})");
  const std::string layer = layer_with("");
  check_one(findings({layer, "W_o=identity", "W_v=" + square + ":v_proj"}), "weight.orientation",
            "is square, (4, 4): taken as (in, out)");
  CHECK(findings({layer, "W_o=identity", "W_v=" + square + ":v_proj@OI"}).empty());
  CHECK(findings({layer, "W_o=identity", "W_v=" + square + ":W_v"}).empty());
  CHECK(findings({layer, "W_o=identity", "W_v=" + square + ":narrow"}).empty());
}

TEST_CASE("lint: a boolean mask that looks inverted") {
  for (const std::string& mask : {upper, strict}) {
    const Words found = with("\"mask\": " + mask);
    INFO(fmt::format("{}", fmt::join(found, "\n")));
    REQUIRE_FALSE(found.empty());
    CHECK_THAT(found[0], Contains("mask.inverted: ") && Contains("later keys only"));
  }
  CHECK(with("\"mask\": " + lower).empty());
  CHECK_THAT(with("\"block_mask\": " + lower).at(0), Contains("mask.inverted: "));
  CHECK(with("\"block_mask\": " + strict).empty());
  CHECK(with(R"("mask": [[true, true, false], [false, true, true], [true, true, true]])").empty());
  CHECK(with(R"("mask": [[true, true, true]])").empty());
}

TEST_CASE("lint: rows that are fully masked") {
  check_one(with(R"("mask": [[true, true, true], [false, false, false], [true, false, true]])"),
            "mask.rows", "query 1 may attend to no key at all: weights of 0 here");
  check_one(with(R"("attention_mask": [0, 0, 1], "causal": true, "masked_rows": "uniform")"),
            "mask.rows", "queries 0–1 may attend to no key at all: uniform weights here");
  check_one(with(R"("mask": [[[true, true, true], [true, true, true], [true, true, true]],
                             [[true, true, true], [true, true, true], [false, false, false]]])"),
            "mask.rows", "head 1 query 2");
  CHECK(with(R"("causal": true)").empty());
  CHECK(with(R"("attention_mask": [1, 1, 0])").empty());
}

TEST_CASE("lint: a finite mask constant among the scores") {
  const auto mask = [](const char* constant) {
    return with(fmt::format(R"("mask": [[0, {0}, {0}], [0, 0, {0}], [0, 0, 0]])", constant));
  };
  check_one(mask("-5"), "mask.constant", "adds -5 where a query may not attend");
  CHECK(mask("-10000").empty());
  CHECK(mask("\"-Infinity\"").empty());
  // Numbers of many values are a bias.
  CHECK(with(R"("mask": [[0, -1, -2], [-1, 0, -1], [-2, -3, 0]])").empty());
}

TEST_CASE("lint: given weights whose rows do not sum to 1") {
  const test::Folder folder;
  const auto weights = [&](const std::string& first_row) {
    return findings({folder.write(
        "w.json", fmt::format(R"({{"weights": [[[{}], [0, 0, 0]], [[0.5, 0.5, 0], [0, 0, 1]]]}})",
                              first_row))});
  };
  check_one(weights("0.25, 0.25, 0.75"), "weights.sum",
            "1 of 4 rows do not sum to 1 (head 0 query 0: 1.25)");
  CHECK(weights("0.25, 0.25, 0.5").empty());
}

TEST_CASE("lint: NaN and infinity") {
  check_one(with(R"("b_q": [0, "NaN", "Infinity", 1])"), "numbers.finite",
            "b_q has 1 NaN and 1 infinite of 4 numbers, the first at [1]");
  check_one(with(R"("b_q": [0, 1, "-Infinity", 1])"), "numbers.finite", "the first at [2]");
  CHECK(with(R"("mask": [[0, "-Infinity", 0], [0, 0, "-Infinity"], [0, 0, 0]])").empty());
}

TEST_CASE("lint: scores beyond float32") {
  const auto of = [](const char* x, const char* precision) {
    const test::Folder folder;
    RunRequest request;
    request.sources = {
        folder.write("l.json", fmt::format(R"({{"num_heads": 1, "X": [[{0}, {0}], [1, 2]]}})", x))};
    request.dtype = dtype_named(precision);
    const Sources model(std::move(request));
    return overflow_of(model.load(model.chosen()[0]).layer).in_words(Wording::program);
  };
  CHECK_THAT(of("1e20", "f32"), Contains("overflow: ") && Contains("scores"));
  CHECK(of("1e20", "f64").empty());
  CHECK(of("1e18", "f32").empty()); // 2e36 is none
  CHECK_THAT(of("1e200", "f64"), Contains("overflow: "));
}

TEST_CASE("lint: a scale that is not 1/√d_k") {
  check_one(with(R"("scale": 1)"), "scale",
            "not 1/√d_k = 1/√2 = 0.707107: scores are 1.414 times what they would be");
  check_one(with(R"("scale": "d_model")"), "scale", "scale is 0.5");
  check_one(findings({layer_with("")}, {{"scale", "0.5"}}), "scale", "scale is 0.5 (scale)");
  CHECK(with(R"("scale": "d_k")").empty());
  CHECK(with(R"("scale": 0.7071)").empty());
}

TEST_CASE("lint: every check has a name of its own, and says what it looks for") {
  std::set<std::string_view> names;
  for (const Check& check : checks()) {
    CHECK(names.insert(check.name).second);
    CHECK_FALSE(check.looks_for.empty());
  }
  CHECK(names.size() == 11);
  // The docs list the same.
  std::ifstream page(in_source("docs/debugging.md"));
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  for (const Check& check : checks())
    CHECK_THAT(text, Contains(fmt::format("| `{}` | {} |\n", check.name, check.looks_for)));
}
