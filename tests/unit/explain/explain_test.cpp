#include <mha/explain/explain.hpp>

#include "support/files.hpp"
#include "support/library_input.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>

using namespace mha;
using Catch::Contains;

namespace {

/// The layer of the quick start: its weights are fractions that a reader can check.
Layer quickstart() {
  Request request;
  request.sources = {in_source("data/quickstart.json")};
  return Sources(request).load("").layer;
}

/// A lone head over tokens given as X, everything else at its default.
NamedTensors tokens(const Shape& shape, const std::vector<double>& numbers) {
  NamedTensors parts;
  parts["X"].tensor = Tensor::of<double>(shape, numbers);
  return parts;
}

Settings one_head() {
  Settings settings;
  settings.num_heads = 1;
  return settings;
}

bool close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-9 * (1 + std::abs(b));
}

/// "" or where numbers differ from the reference's, which has them from `first` on, `stride` apart.
std::string difference(const std::vector<double>& got, const reference::Array& want,
                       std::size_t first) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!close(got[i], want.values[first + i]))
      return fmt::format("number {}: {} instead of {}", i, got[i], want.values[first + i]);
  return "";
}

/// Compares one explanation of a random layer with the reference.
std::string difference(const RandomLayer& random, const Layer& layer, std::size_t b, std::size_t t,
                       std::optional<std::size_t> h) {
  const std::map<std::string, reference::Array> stages = reference::compute(random.layer);
  const Explanation explanation = explain(layer, {b, t, h});
  const std::size_t T = layer.dims.T, H = layer.dims.H;
  const auto at = [&](Stage stage,
                      std::size_t head) -> const std::pair<const reference::Array*, std::size_t> {
    const reference::Array& array = stages.at(std::string(name_of(stage)));
    const bool with_heads = info_of(stage).letters.front() == Dim::H;
    const std::size_t row = with_heads ? (b * H + head) * T + t : b * T + t;
    return {&array, row * (info_of(stage).kind == Kind::row ? 1 : array.shape.back())};
  };
  for (const auto& [stage, numbers] : explanation.values) {
    const auto [want, first] = at(stage, 0);
    if (const std::string text = difference(numbers, *want, first); !text.empty())
      return fmt::format("{}: {}", name_of(stage), text);
  }
  if (explanation.heads.size() != (h ? 1 : H)) return "not every head";
  for (const HeadExplanation& head : explanation.heads) {
    for (const auto& [stage, numbers] : head.values) {
      const auto [want, first] = at(stage, head.head);
      if (const std::string text = difference(numbers, *want, first); !text.empty())
        return fmt::format("head {} {}: {}", head.head, name_of(stage), text);
    }
    // What the keys add sums to what the head gives.
    std::vector<double> sum(layer.dims.d_v);
    for (std::size_t j = 0; j < layer.dims.S_all; ++j) {
      const std::vector<double> part = head.contribution(j);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    const std::vector<double>& head_out = head.values.at(Stage::head_out);
    for (std::size_t i = 0; i < sum.size(); ++i)
      if (std::isfinite(head_out[i]) && !close(sum[i], head_out[i]))
        return fmt::format("head {}: the contributions sum to {}, not {}", head.head, sum[i],
                           head_out[i]);
    if (head.sink && head.sink->share) {
      const std::vector<double>& alpha = head.values.at(Stage::weights);
      const double total = std::accumulate(alpha.begin(), alpha.end(), *head.sink->share);
      if (std::isfinite(total) && head.masked_count() < alpha.size() && !close(total, 1))
        return fmt::format("head {}: weights and sink sum to {}", head.head, total);
    }
  }
  if (!h && explanation.heads.front().share) {
    double total = explanation.b_o_share.value_or(0);
    for (const HeadExplanation& head : explanation.heads) total += head.share.value_or(0);
    if (std::isfinite(total) && !close(total, 1)) return fmt::format("the shares sum to {}", total);
  }
  return "";
}

} // namespace

TEST_CASE("an explanation's numbers are those of the quick start by hand") {
  const Explanation explanation = explain(quickstart(), {0, 2, 0});
  REQUIRE(explanation.heads.size() == 1);
  const HeadExplanation& head = explanation.heads[0];
  CHECK(explanation.label == "sat");
  CHECK(explanation.key_labels == std::vector<std::string>{"the", "cat", "sat"});
  CHECK(explanation.values.at(Stage::x) == std::vector<double>{0, 0, 1, 1});
  CHECK(head.values.at(Stage::q) == std::vector<double>{0, 2});
  CHECK(head.keys == std::vector<double>{1, 0, 0, 1, 0, 0});
  CHECK(head.values.at(Stage::scores) == std::vector<double>{0, 2, 0});
  CHECK(head.value(Stage::row_max) == Approx(2 * std::log(2.0)));
  // The scale is ln 2: the exponentials are powers of two.
  CHECK(head.value(Stage::row_sum) == Approx(1.5));
  const std::vector<double>& alpha = head.values.at(Stage::weights);
  CHECK(alpha[0] == Approx(1.0 / 6));
  CHECK(alpha[1] == Approx(4.0 / 6));
  CHECK(head.values.at(Stage::head_out)[0] == Approx(2.0 / 6));
  CHECK(head.values.at(Stage::head_out)[1] == Approx(9.0 / 6));
  CHECK(head.contribution(1)[1] == Approx(8.0 / 6));
  CHECK(by_weight(head) == std::vector<std::size_t>{1, 0, 2});
  CHECK(logits_stage(head) == Stage::masked);
  CHECK(head.masked_count() == 0);
  CHECK(head.notes.empty());
  CHECK(*head.relative_norm == Approx(norm_of(head.values.at(Stage::head_result)) /
                                      norm_of(explanation.values.at(Stage::output))));
}

TEST_CASE("explanations of random layers agree with the reference") {
  const std::uint64_t draws = sanitized ? 40 : 400;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 6), false);
    const Layer layer = library_layer(random.layer, random.form);
    Random numbers(seed);
    const std::size_t b = numbers.count(0, layer.dims.B - 1),
                      t = numbers.count(0, layer.dims.T - 1);
    std::optional<std::size_t> h;
    if (numbers.chance(0.5)) h = numbers.count(0, layer.dims.H - 1);
    INFO("seed " << seed << ": " << random.description);
    std::string found;
    try {
      found = difference(random, layer, b, t, h);
    } catch (const std::exception& error) {
      found = error.what();
    }
    CHECK(found == "");
  }
}

TEST_CASE("keys beyond the current ones are named") {
  NamedTensors parts = tokens({2, 2}, {1, 0, 0, 1});
  parts["k_past"].tensor = Tensor::of<double>({1, 1, 2}, std::vector<double>{1, 1});
  parts["v_past"].tensor = Tensor::of<double>({1, 1, 2}, std::vector<double>{2, 2});
  parts["k_extra"].tensor = Tensor::of<double>({2}, std::vector<double>{3, 3});
  parts["v_extra"].tensor = Tensor::of<double>({2}, std::vector<double>{4, 4});
  Settings settings = one_head();
  settings.zero_attn = true;
  Labels labels;
  labels.tokens = {"a", "b"};
  const Explanation explanation = explain(make_layer(parts, settings, {}, labels), {0, 1, 0});
  CHECK(explanation.label == "b");
  CHECK(explanation.key_labels ==
        std::vector<std::string>{"[past 0]", "a", "b", "[extra]", "[zero]"});
  CHECK(explanation.heads[0].values.at(Stage::weights).size() == 5);
}

TEST_CASE("what a sink takes is missing from the weights") {
  NamedTensors parts = tokens({2, 1}, {0, 0}); // every score is 0
  parts["sinks"].tensor = Tensor::of<double>({1}, std::vector<double>{std::log(2.0)});
  const Explanation explanation = explain(make_layer(parts, one_head()), {0, 0, 0});
  const HeadExplanation& head = explanation.heads[0];
  REQUIRE(head.sink);
  CHECK(head.sink->logit == Approx(std::log(2.0)));
  CHECK(*head.sink->exp == Approx(1));
  CHECK(*head.sink->share == Approx(0.5));
  CHECK(head.values.at(Stage::weights)[1] == Approx(0.25));
}

TEST_CASE("an explanation says in words what overflows, and what nothing is left of") {
  Settings settings = one_head();
  settings.softmax = Softmax::naive;
  settings.scale = ScaleKind::none;
  const auto notes = [&](const NamedTensors& parts) {
    std::vector<std::string> texts;
    const Explanation told = explain(make_layer(parts, settings), {0, 0, 0});
    for (const Message& note : told.heads[0].notes)
      texts.push_back(note.in_words(Wording::program));
    return texts;
  };
  SECTION("naive, too large") {
    const std::vector<std::string> said = notes(tokens({2, 1}, {30, 1})); // 900, 30
    REQUIRE(said.size() == 1);
    CHECK_THAT(said[0], Contains("overflow: 1 exponential is infinite") && Contains("e^709.8") &&
                            Contains("nan. softmax stable gives the weights"));
  }
  SECTION("naive, too small") {
    NamedTensors parts = tokens({2, 1}, {30, 30});
    parts["W_k"].tensor = Tensor::of<double>({1, 1}, std::vector<double>{-1});
    const std::vector<std::string> said = notes(parts);
    REQUIRE(said.size() == 1);
    CHECK_THAT(said[0], Contains("underflow") && Contains("0 / 0"));
  }
  SECTION("naive, within the range") {
    CHECK(notes(tokens({2, 1}, {3, 1})).empty());
  }
  SECTION("every key masked") {
    settings.softmax = Softmax::stable;
    NamedTensors parts = tokens({2, 1}, {3, 1});
    parts["kv_lengths"].tensor = Tensor::of<double>({1}, std::vector<double>{0});
    for (const auto& [rows, word] :
         {std::pair{MaskedRows::zero, "every α 0"}, std::pair{MaskedRows::nan, "every α nan"},
          std::pair{MaskedRows::uniform, "every α 1/2"}}) {
      settings.masked_rows = rows;
      const std::vector<std::string> said = notes(parts);
      REQUIRE(said.size() == 1);
      CHECK_THAT(said[0], Contains(word));
    }
  }
  SECTION("NaN in the input") {
    settings.softmax = Softmax::stable;
    const std::vector<std::string> said = notes(tokens({2, 1}, {1, std::nan("")}));
    REQUIRE(said.size() == 1);
    CHECK(said[0] == "nan or infinity comes in at scores"); // query 0's own x is finite
  }
}

TEST_CASE("an explanation starts where the computation starts") {
  NamedTensors parts;
  parts["weights"].tensor = Tensor::of<double>({1, 1, 3}, std::vector<double>{0.5, 0.125, 0.25});
  SECTION("at the weights alone") {
    const Explanation explanation = explain(make_layer(parts, {}), {0, 0, 0});
    const HeadExplanation& head = explanation.heads[0];
    CHECK(by_weight(head) == std::vector<std::size_t>{0, 2, 1});
    CHECK_FALSE(head.has(Stage::scores));
    CHECK_FALSE(head.has(Stage::head_out));
    CHECK(head.masked.empty());
    CHECK(contains(explanation.given, Stage::weights));
    REQUIRE(head.notes.size() == 1);
    CHECK_THAT(head.notes[0].in_words(Wording::program), Contains("sum to 0.875"));
  }
  SECTION("at weights and values") {
    parts["v"].tensor = Tensor::of<double>({1, 3, 2}, std::vector<double>{1, 2, 3, 4, 5, 6});
    const HeadExplanation head = explain(make_layer(parts, {}), {0, 0, 0}).heads[0];
    CHECK(head.contribution(1) == std::vector<double>{0.375, 0.5});
    CHECK(head.values.at(Stage::head_out) == std::vector<double>{2.125, 3});
  }
}

TEST_CASE("an explanation refuses what is not there") {
  const Layer layer = quickstart();
  CHECK_THROWS_WITH(explain(layer, {0, 3, 0}), "query 3: there are 3 queries (0 to 2)");
  CHECK_THROWS_WITH(explain(layer, {0, 0, 2}), "head 2: there are 2 heads (0 to 1)");
  CHECK_THROWS_WITH(explain(layer, {1, 0, 0}), "batch 1: there are 1 batch items (0 to 0)");
  NamedTensors parts;
  parts["q"].tensor = Tensor::of<double>({1, 1, 1}, std::vector<double>{1});
  CHECK_THROWS_WITH(explain(make_layer(parts, {}), {0, 0, 0}), Contains("nothing to explain"));
}
