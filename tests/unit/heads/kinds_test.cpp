// The word for a head, on drawn maps whose right word is known.

#include <mha/heads/measures.hpp>
#include <mha/heads/separators.hpp>

#include "support/library_input.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

using namespace mha;

namespace {

/// One head's map over T tokens, drawn around what its kind looks at.
struct Drawn {
  std::size_t T = 0;
  bool causal = false;
  std::vector<std::string> tokens;
  std::vector<double> weights;
};

std::vector<std::string> drawn_tokens(Random& random, std::size_t T) {
  std::vector<std::string> tokens;
  for (std::size_t t = 0; t < T; ++t) tokens.push_back("w" + std::to_string(t));
  // Words that come back, so that what repeats is measured, too.
  for (std::size_t t = 1; t < T; ++t)
    if (random.count(0, 3) == 0) tokens[t] = tokens[random.count(0, t - 1)];
  return tokens;
}

/// `targets`: the keys that query t looks at, none: it looks at all that it may see.
Drawn drawn(Random& random, std::size_t T, bool causal, double purity,
            const std::function<std::vector<std::size_t>(std::size_t)>& targets) {
  Drawn map{T, causal, {}, std::vector<double>(T * T, 0)};
  for (std::size_t t = 0; t < T; ++t) {
    const std::size_t seen = causal ? t + 1 : T;
    std::vector<std::size_t> keys;
    for (std::size_t j : targets(t))
      if (j < seen) keys.push_back(j);
    const double rest = keys.empty() ? 1 : 1 - purity;
    double noise = 0;
    std::vector<double> row(seen);
    for (double& one : row) noise += one = 1 + random.uniform(-0.1, 0.1);
    for (std::size_t j = 0; j < seen; ++j) map.weights[t * T + j] = rest * row[j] / noise;
    for (std::size_t j : keys)
      map.weights[t * T + j] += (1 - rest) / static_cast<double>(keys.size());
  }
  return map;
}

HeadMeasures measured(const Drawn& map, bool as_saved) {
  NamedTensors parts;
  parts["weights"].tensor = Tensor::of<double>({1, map.T, map.T}, map.weights);
  Settings settings;
  settings.causal = map.causal && !as_saved;
  Layer layer = make_layer(parts, settings);
  layer.tokens = layer.key_tokens = map.tokens;
  MeasureRequest request;
  request.threads = 1;
  return measure_heads(layer, request).heads[0];
}

using Targets = std::function<std::vector<std::size_t>(std::size_t t)>;

} // namespace

TEST_CASE("kinds: a drawn map has its word, or is too short for one", "[measures]") {
  std::size_t wrong = 0, short_ones = 0, words = 0;
  for (std::size_t T = 2; T <= 64; ++T)
    for (std::uint64_t seed = 0; seed < 2; ++seed)
      for (bool causal : {true, false})
        for (bool as_saved : {true, false}) {
          Random random(1000 * T + seed);
          const double purity = random.uniform(0.75, 1);
          std::vector<std::string> tokens = drawn_tokens(random, T), with_signs = tokens;
          std::vector<std::size_t> signs;
          for (std::size_t t = 1; t < T; t += random.count(2, 6))
            signs.push_back(t), with_signs[t] = random.count(0, 1) ? "." : ",";
          const auto all = [](std::size_t) { return std::vector<std::size_t>(); };
          struct Case {
            std::string_view kind;
            Targets targets;
            bool signs = false;
          };
          std::vector<Case> cases{
              {"uniform", all},
              {"first-token", [](std::size_t) { return std::vector<std::size_t>{0}; }},
              {"self", [](std::size_t t) { return std::vector{t}; }},
              {"previous-token",
               [](std::size_t t) { return t ? std::vector{t - 1} : std::vector<std::size_t>(); }},
              {"separator", [&](std::size_t) { return signs; }, true}};
          if (!causal) {
            cases.push_back({"next-token", [](std::size_t t) { return std::vector{t + 1}; }});
            cases.push_back({"last-token", [T](std::size_t) { return std::vector{T - 1}; }});
          }
          for (const Case& one : cases) {
            Drawn map = drawn(random, T, causal, purity, one.targets);
            map.tokens = one.signs ? with_signs : tokens;
            const HeadMeasures head = measured(map, as_saved);
            ++words;
            if (head.kind == one.kind) continue;
            INFO(one.kind << " of " << T << (causal ? " causal" : "") << ", purity " << purity
                          << " is called " << head.kind);
            if (head.kind == "too short" && T < 16) {
              ++short_ones;
              // Seven tokens that choose, and few separators early in a text.
              CHECK((T <= 7 || one.signs));
              continue;
            }
            ++wrong;
            CHECK(false);
          }
        }
  CHECK(wrong == 0);
  CHECK(short_ones * 5 < words);
}

TEST_CASE("kinds: exactly equal weights are uniform, or too short", "[measures]") {
  for (std::size_t T = 1; T <= 64; ++T)
    for (bool causal : {true, false})
      for (bool as_saved : {true, false}) {
        Random random(T);
        Drawn map =
            drawn(random, T, causal, 0, [](std::size_t) { return std::vector<std::size_t>(); });
        for (std::size_t t = 0; t < T; ++t)
          for (std::size_t j = 0; j < T; ++j)
            map.weights[t * T + j] =
                causal ? j <= t ? 1 / static_cast<double>(t + 1) : 0 : 1 / static_cast<double>(T);
        const HeadMeasures head = measured(map, as_saved);
        INFO(T << (causal ? " causal" : ""));
        CHECK(head.kind == (T < (causal ? 7U : 6U) ? "too short" : "uniform"));
        for (const Measure& measure : measures())
          if (measure.name.ends_with("_above") && measure.of(head))
            CHECK(std::fabs(*measure.of(head)) < 1e-12);
      }
}

TEST_CASE("kinds: the first word that comes back makes no duplicate-token head of a sink",
          "[measures]") {
  Random random(3);
  Drawn map = drawn(random, 32, true, 0.9, [](std::size_t) { return std::vector<std::size_t>{0}; });
  for (std::size_t t = 0; t < 32; ++t)
    map.tokens.push_back(t % 4 ? "w" + std::to_string(t) : "the");
  CHECK(measured(map, false).kind == "first-token");
}

TEST_CASE("kinds: a score of few rows is no word", "[measures]") {
  Random random(4);
  std::vector<std::string> tokens;
  for (std::size_t t = 0; t < 24; ++t) tokens.push_back("w" + std::to_string(t));
  tokens[20] = tokens[5];
  Drawn map = drawn(random, 24, true, 1, [](std::size_t t) {
    return t == 20 ? std::vector<std::size_t>{6} : std::vector<std::size_t>{t / 2, t / 3};
  });
  map.tokens = tokens;
  const HeadMeasures head = measured(map, false);
  CHECK(head.induction == 1);
  CHECK(head.counts.induction == 1);
  CHECK(head.kind == "too short");
}

TEST_CASE("kinds: the last key that is the only separator is a separator, else the last key",
          "[measures]") {
  Random random(5);
  Drawn map =
      drawn(random, 20, false, 0.9, [](std::size_t) { return std::vector<std::size_t>{19}; });
  for (std::size_t t = 0; t < 20; ++t) map.tokens.push_back("w" + std::to_string(t));
  CHECK(measured(map, false).kind == "last-token");
  map.tokens[19] = "[SEP]";
  CHECK(measured(map, false).kind == "separator");
  map.tokens[8] = ".";
  CHECK(measured(map, false).kind == "last-token");
}

TEST_CASE("separators: ends of texts and signs between words, whatever marks their blanks",
          "[measures]") {
  for (const char* token : {".", ",", " .", "Ġ.", "▁,", "[SEP]", "</s>", "<|endoftext|>", "\n",
                            "\n\n", "⏎", "Ċ", "...", "?!", ">>", "。", "<0x0A>", " [SEP]", ".\n"})
    CHECK(is_separator(token));
  for (const char* token :
       {"", " ", "Ġ", "a", ".5", "[CLS]", "[MASK]", "<s>", "don't", "-", "(", "="})
    CHECK_FALSE(is_separator(token));
}

TEST_CASE("kinds: of a long text a row or two that show a pattern leave the head mixed",
          "[measures]") {
  for (const std::size_t T : std::initializer_list<std::size_t>{24, 40, 200}) {
    Random random(4);
    std::vector<std::string> tokens;
    for (std::size_t t = 0; t < T; ++t) tokens.push_back("w" + std::to_string(t));
    tokens[20] = tokens[5];
    Drawn map = drawn(random, T, true, 1, [](std::size_t t) {
      return t == 20 ? std::vector<std::size_t>{6} : std::vector<std::size_t>{t / 2, t / 3};
    });
    map.tokens = tokens;
    INFO(T);
    CHECK(measured(map, false).kind == (T < 32 ? "too short" : "mixed"));
  }
}
