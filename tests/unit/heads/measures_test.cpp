#include <mha/heads/measures.hpp>

#include "support/files.hpp"
#include "support/library_input.hpp"
#include "support/reference_measures.hpp"
#include "support/sanitizers.hpp"
#include "support/thread_ranks.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>

using namespace mha;
using Catch::Contains;

namespace {

/// Words that come back, so that there is something to repeat. Keys that a layer adds have labels
/// of their own.
void label(Layer& layer, std::uint64_t seed) {
  Random random(seed);
  const auto word = [&] { return std::string(1, "abc."[random.count(0, 3)]); };
  const Dims& d = layer.dims;
  for (std::size_t j = 0; j < d.S_all; ++j)
    layer.key_tokens.push_back(j < d.past + d.S ? word() : "[extra]");
  for (std::size_t t = 0; t < d.T; ++t)
    layer.tokens.push_back(d.T == d.S ? layer.key_tokens[d.past + t] : word());
}

/// "" or the first measure that is not the reference's.
std::string difference(const HeadMeasures& got, const reference::Measures& want, double tolerance) {
  for (const Measure& measure : measures()) {
    const std::string name(measure.name);
    const std::optional<double> found = measure.of(got);
    const auto expected = want.find(name);
    const bool is_known = expected != want.end();
    if (found.has_value() != is_known)
      return fmt::format("head {}: {} is {}, expected {}", got.head, name,
                         found ? std::to_string(*found) : "nothing",
                         is_known ? std::to_string(expected->second) : "nothing");
    if (!found) continue;
    // Noise divided by noise, and heads that are equally near.
    if (name.starts_with("cond_") && expected->second > 1e6) continue;
    if (name == "nearest_head" && want.at("similarity") > 1 - 1e-9) continue;
    if (std::isnan(*found) && std::isnan(expected->second)) continue;
    // Its cells are kept in float32, whatever the layer computes in.
    const double within = name == "similarity" ? std::max(tolerance, 1e-7) : tolerance;
    if (!(std::fabs(*found - expected->second) <=
          within * std::max(1.0, std::fabs(expected->second))))
      return fmt::format("head {}: {} is {}, expected {}", got.head, name, *found,
                         expected->second);
  }
  return "";
}

std::string difference(const std::vector<HeadMeasures>& got,
                       const std::vector<reference::Measures>& want, double tolerance = 1e-6) {
  for (const HeadMeasures& head : got)
    if (const std::string text = difference(head, want[head.head], tolerance); !text.empty())
      return text;
  return "";
}

void require_reference(const RandomLayer& random, std::uint64_t seed, std::size_t window = 8) {
  Layer layer = library_layer(random.layer, random.form);
  label(layer, seed);
  reference::MeasuredPart part;
  part.window = window;
  MeasureRequest request;
  request.window = window;
  INFO("seed " << seed << ": " << random.description);
  CHECK(difference(measure_heads(layer, request).heads, reference::measure(layer, part)) == "");
}

Layer layer_of(std::uint64_t seed, const std::vector<Variant>& variants, bool single,
               const Limits& limits = {}) {
  const RandomLayer random = random_layer(seed, variants, single, limits);
  Layer layer = library_layer(random.layer, random.form);
  label(layer, seed);
  return layer;
}

bool same_bits(const HeadMeasures& a, const HeadMeasures& b) {
  for (const Measure& measure : measures()) {
    const std::optional<double> left = measure.of(a), right = measure.of(b);
    if (left.has_value() != right.has_value()) return false;
    if (left && std::memcmp(&*left, &*right, sizeof(double)) != 0) return false;
  }
  return a.head == b.head && a.kind == b.kind;
}

LoadedLayer induction(const std::string& id) {
  Request request;
  request.sources = {in_source("data/induction"),
                     "X=" + in_source("data/induction/hidden.npz") + ":layers.{layer}"};
  request.layer = id;
  request.settings = {{"causal", "true"}};
  request.tokens = in_source("data/induction/tokens.json");
  return Sources(request).load(id);
}

/// Attention maps alone, (B, H, T, S).
Layer maps(const Shape& shape, const std::vector<double>& weights) {
  NamedTensors parts;
  parts["weights"].tensor = Tensor::of<double>(shape, weights);
  return make_layer(parts, Settings{});
}

} // namespace

TEST_CASE("measures equal those computed from the dumped stages, for every kind of layer",
          "[measures]") {
  const std::vector<std::vector<Variant>> kinds{
      {},
      {Variant::gqa},
      {Variant::mqa, Variant::causal},
      {Variant::causal},
      {Variant::causal, Variant::window_left},
      {Variant::window_left, Variant::window_right},
      {Variant::padding},
      {Variant::attention_mask, Variant::causal},
      {Variant::kv_lengths, Variant::causal},
      {Variant::kv_lengths},
      {Variant::cross},
      {Variant::cross, Variant::causal},
      {Variant::separate_sources, Variant::padding},
      {Variant::past, Variant::causal},
      {Variant::past, Variant::extra_key, Variant::zero_key},
      {Variant::block_mask},
      {Variant::infinite_mask},
      {Variant::infinite_mask, Variant::masked_nan},
      {Variant::infinite_mask, Variant::masked_uniform},
      {Variant::float_mask, Variant::bias},
      {Variant::sinks, Variant::causal},
      {Variant::sinks, Variant::block_mask},
      {Variant::columns},
      {Variant::columns, Variant::cross},
      {Variant::naive},
      {Variant::identity_output},
      {Variant::identity_queries, Variant::no_biases},
      {Variant::one_token},
      {Variant::one_key},
      {Variant::rope_half, Variant::qk_norm, Variant::softcap, Variant::relative_bias},
  };
  for (std::size_t i = 0; i < kinds.size(); ++i)
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const std::uint64_t number = 1000 * i + seed;
      require_reference(random_layer(number, kinds[i], seed % 2 == 1), number, 1 + seed);
    }
}

TEST_CASE("measures equal those computed from the dumped stages, for any mix", "[measures]") {
  for (std::uint64_t seed = 0; seed < 100 / one_of; ++seed)
    require_reference(random_layer(seed, random_variants(seed, 0, 5), seed % 2 == 1), seed);
}

TEST_CASE("measures of several blocks, whose maps are averaged down", "[measures]") {
  const Limits limits{.tokens = 720, .heads = 3, .width = 5, .d_model = 7};
  std::size_t longest = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const std::vector<std::vector<Variant>> kinds{
        {Variant::causal}, {Variant::cross}, {Variant::window_left, Variant::gqa}};
    const RandomLayer random = random_layer(seed, kinds[seed % 3], seed % 2 == 1, limits);
    longest = std::max(longest, random.layer.T());
    require_reference(random, seed);
  }
  CHECK(longest > 512);
}

TEST_CASE("measures have the same bits whatever the threads and the heads asked for",
          "[measures]") {
  const Limits limits{.tokens = 600, .heads = 6, .width = 5, .d_model = 7};
  const Layer layer = layer_of(11, {Variant::causal, Variant::gqa}, true, limits);
  REQUIRE(layer.dims.H > 2);
  MeasureRequest request;
  request.threads = 1;
  const std::vector<HeadMeasures> one = measure_heads(layer, request).heads;
  for (std::size_t threads : {2u, 3u, 8u}) {
    request.threads = threads;
    const std::vector<HeadMeasures> many = measure_heads(layer, request).heads;
    REQUIRE(many.size() == one.size());
    for (std::size_t h = 0; h < one.size(); ++h) CHECK(same_bits(one[h], many[h]));
  }
  request.selection.head = IndexList("2,0", "--head");
  const std::vector<HeadMeasures> two = measure_heads(layer, request).heads;
  REQUIRE(two.size() == 2);
  CHECK(same_bits(two[0], one[2]));
  CHECK(same_bits(two[1], one[0]));
}

TEST_CASE("ranks measure the bits of one", "[measures]") {
  const auto require_same_bits = [](const Layer& layer, const MeasureRequest& request) {
    const LayerMeasures one = measure_heads(layer, request);
    for (std::size_t count = 2; count <= 4; ++count) {
      LayerMeasures first;
      std::size_t others = 0;
      const std::string message = run_ranks(count, [&](Ranks& ranks) {
        MeasureRequest shared = request;
        shared.ranks = &ranks, shared.threads = 1;
        LayerMeasures found = measure_heads(layer, shared);
        if (ranks.is_first())
          first = std::move(found);
        else if (!found.heads.empty())
          ++others;
      });
      INFO(count << " ranks");
      CHECK(message == "");
      CHECK(others == 0);
      REQUIRE(first.heads.size() == one.heads.size());
      CHECK(std::equal(first.heads.begin(), first.heads.end(), one.heads.begin(), same_bits));
      CHECK(first.notes == one.notes);
    }
  };
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Limits limits;
    if (seed % 4 == 0) limits = {.tokens = 720, .heads = 3, .width = 5, .d_model = 7};
    const Layer layer = layer_of(seed, random_variants(seed, 0, 4), seed % 2 == 1, limits);
    INFO("seed " << seed << ": " << layer.dims.B << " × " << layer.dims.T << " tokens, "
                 << layer.dims.H << " heads");
    MeasureRequest request;
    if (seed % 3 == 0) request.selection.head = IndexList("-1", "--head");
    if (seed % 5 == 0) request.selection.query = IndexList("::-2", "--query");
    require_same_bits(layer, request);
  }
  std::vector<double> weights; // (1, 2, 300, 3): saved maps, and nothing that brings heads together
  Random random(5);
  for (std::size_t i = 0; i < 1800; ++i) weights.push_back(random.uniform(0, 1));
  require_same_bits(maps({1, 2, 300, 3}, weights), {});
}

TEST_CASE("a selection measures its queries and batch items alone", "[measures]") {
  const Limits limits{.tokens = 400, .heads = 3, .width = 5, .d_model = 7};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Layer layer = layer_of(seed, {Variant::causal}, seed % 2 == 1, limits);
    if (!layer.dims.batched || layer.dims.B < 2 || layer.dims.T < 300) continue;
    MeasureRequest request;
    request.selection.batch = IndexList("1", "--batch");
    request.selection.query = IndexList("3,5-9,-1", "--query");
    reference::MeasuredPart part;
    part.batches = {1};
    part.queries = {3, 5, 6, 7, 8, 9, layer.dims.T - 1};
    CHECK(difference(measure_heads(layer, request).heads, reference::measure(layer, part)) == "");
    return;
  }
  FAIL("no layer was large enough");
}

TEST_CASE("the heads of data/induction are what they were trained to be", "[measures]") {
  const std::vector<HeadMeasures> first = measure_heads(induction("0").layer).heads,
                                  second = measure_heads(induction("1").layer).heads;
  CHECK(first[0].kind == "previous-token");
  CHECK(first[0].previous.value() == Approx(0.99).margin(0.005));
  REQUIRE(second.size() == 4);
  for (const HeadMeasures& head : second) {
    CHECK(head.kind == "induction");
    CHECK(head.induction.value() >= 0.90);
  }
  for (std::size_t h = 1; h < first.size(); ++h) CHECK(first[h].kind != "induction");
}

TEST_CASE("maps alone are measured, and what they do not tell is nothing", "[measures]") {
  // Two heads: one looks at the token before, one at everything.
  const double third = 1.0 / 3;
  const Layer layer = maps({1, 2, 3, 3}, {1, 0, 0, 1, 0, 0, 0, 1, 0, third, third, third, third,
                                          third, third, third, third, third});
  const std::vector<HeadMeasures> heads = measure_heads(layer).heads;
  REQUIRE(heads.size() == 2);
  CHECK(heads[0].kind == "too short");
  CHECK(heads[0].previous == 1);
  CHECK(heads[0].entropy == 0);
  CHECK(heads[0].one_key_rows == 1);
  CHECK(heads[1].kind == "too short");
  CHECK(heads[1].uniformity.value() == Approx(1));
  CHECK(heads[1].entropy_share.value() == Approx(1));
  CHECK(heads[1].effective_keys.value() == Approx(3));
  CHECK(heads[1].self.value() == Approx(third));
  CHECK(heads[1].distance.value() == Approx(8.0 / 9));
  for (const HeadMeasures& head : heads) {
    CHECK_FALSE(head.result_norm);
    CHECK_FALSE(head.result_share);
    CHECK_FALSE(head.induction);
    CHECK_FALSE(head.q.rank);
    CHECK_FALSE(head.largest_logit);
    CHECK_FALSE(head.overflow_f16);
    CHECK(head.masked_rows == 0);
  }
  CHECK(reference::measure(layer)[0].at("similarity") == Approx(heads[0].similarity.value()));
}

TEST_CASE("maps that are zero after every query are taken as causal", "[measures]") {
  const std::vector<double> causal{1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5};
  const auto measured = [&](std::vector<double> second) {
    second.insert(second.begin(), causal.begin(), causal.end());
    return measure_heads(maps({1, 2, 3, 3}, second)).heads;
  };
  // Rows 1 and 2 may see two and three keys.
  const double entropy = 0.5 * std::log(4) + 0.5 * std::log(2);
  const HeadMeasures head = measured(causal)[0];
  CHECK(head.entropy_share.value() == Approx((1 + entropy / std::log(3)) / 2));
  CHECK(head.uniformity.value() == Approx((1 + 0.25 + 0.25 + 1.0 / 3) / 2));
  CHECK(head.uniform.window == 1);
  // One head that looks ahead: then every key may be seen.
  const HeadMeasures other = measured({0, 1, 0, 1, 0, 0, 1, 0, 0})[0];
  CHECK(other.entropy_share.value() == Approx((std::log(2) + entropy) / std::log(3) / 3));
}

TEST_CASE("rows of zeros and of NaN in saved maps count as fully masked", "[measures]") {
  const double nan = std::nan("");
  const HeadMeasures head = measure_heads(maps({1, 1, 3, 2}, {0, 0, nan, nan, 0.25, 0.7})).heads[0];
  CHECK(head.masked_rows == 2);
  CHECK(head.max == 0.7);
  CHECK(head.max_query == 2);
  CHECK(head.row_sum_error.value() == Approx(0.05));
  CHECK_FALSE(head.self); // three queries, two keys: nothing gives their positions

  const HeadMeasures broken = measure_heads(maps({1, 1, 2, 2}, {0.5, 0.5, nan, 0.25})).heads[0];
  CHECK(broken.masked_rows == 0);
  CHECK(std::isnan(broken.entropy.value()));
  CHECK(std::isnan(broken.max.value()));
  CHECK(std::isnan(broken.row_sum_error.value()));

  const HeadMeasures nothing = measure_heads(maps({1, 1, 2, 2}, {0, 0, 0, 0})).heads[0];
  CHECK(nothing.masked_rows == 2);
  CHECK_FALSE(nothing.entropy);
  CHECK(nothing.kind.empty());
}

TEST_CASE("large logits overflow a naive softmax, in half precision first", "[measures]") {
  NamedTensors parts;
  Settings settings;
  settings.scale = ScaleKind::none;
  const auto with_logit = [&](double logit) {
    parts["masked"].tensor = Tensor::of<double>({1, 2, 2}, std::vector<double>{0, logit, 0, 0});
    return measure_heads(make_layer(parts, settings)).heads[0];
  };
  const HeadMeasures small = with_logit(11.0), medium = with_logit(11.1), large = with_logit(89.0);
  CHECK(small.largest_logit == 11);
  CHECK(small.overflow_f16 == 0);
  CHECK(medium.overflow_f16 == 1);
  CHECK(medium.overflow_f32 == 0);
  CHECK(large.overflow_f32 == 1);
}

TEST_CASE("projections are measured where there is no input", "[measures]") {
  Request request;
  request.sources = {in_source("data/induction")};
  request.layer = "0";
  const Layer layer = Sources(request).load("0").layer;
  const std::vector<HeadMeasures> heads = measure_heads(layer).heads;
  REQUIRE(heads.size() == 4);
  const std::vector<HeadMeasures> all = measure_heads(induction("0").layer).heads;
  for (std::size_t h = 0; h < 4; ++h) {
    CHECK(heads[h].kind.empty());
    CHECK_FALSE(heads[h].entropy);
    CHECK_FALSE(heads[h].masked_rows);
    CHECK(heads[h].q.rank == 16);
    CHECK(heads[h].o.stiefel == all[h].o.stiefel);
  }
}

TEST_CASE("measures of projections are left out where they are not asked for", "[measures]") {
  const LoadedLayer loaded = induction("0");
  MeasureRequest request;
  request.projections = false;
  for (const HeadMeasures& head : measure_heads(loaded.layer, request).heads)
    for (const Measure& measure : measures()) {
      INFO(measure.name);
      const bool named = measure.name.starts_with("rank_") || measure.name.starts_with("cond_") ||
                         measure.name.starts_with("stiefel_");
      CHECK(is_of_projections(measure) == named);
      if (named) CHECK_FALSE(measure.of(head));
      if (measure.name == "entropy") CHECK(measure.of(head));
    }
}

TEST_CASE("a layer without anything to measure is refused", "[measures]") {
  NamedTensors parts;
  parts["v"].tensor = Tensor::of<double>({2, 3, 4}, std::vector<double>(24, 1.0));
  Settings settings;
  settings.num_heads = 2;
  CHECK_THROWS_WITH(measure_heads(make_layer(parts, settings)),
                    Contains("there is nothing to measure"));
}

TEST_CASE("every measure and kind has a name of its own, and misspelt ones are corrected",
          "[measures]") {
  // The columns that programs rely on, in their order.
  const std::vector<std::string_view> first{
      "entropy",     "entropy_share", "effective_keys", "first",        "self",
      "previous",    "distance",      "window",         "diagonal",     "induction",
      "duplicate",   "max",           "max_query",      "max_key",      "one_key_rows",
      "uniformity",  "result_norm",   "result_share",   "nearest_head", "similarity",
      "masked_rows", "row_sum_error", "rank_q",         "cond_q",       "stiefel_q",
      "rank_k",      "cond_k",        "stiefel_k",      "rank_v",       "cond_v",
      "stiefel_v",   "rank_o",        "cond_o",         "stiefel_o"};
  REQUIRE(measures().size() > first.size());
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(measures()[i].name == first[i]);
  for (const Measure& measure : measures()) CHECK(&measure_named(measure.name) == &measure);
  for (const HeadKind& kind : head_kinds()) CHECK(&head_kind_named(kind.name) == &kind);
  CHECK_THROWS_WITH(measure_named("entropie"), Contains("did you mean 'entropy'?"));
  CHECK_THROWS_WITH(head_kind_named("inductive"), Contains("did you mean 'induction'?"));
}

TEST_CASE("measures of drawn maps in float64 equal their formulas to 1e-9", "[measures]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::size_t T = random.count(2, 64), H = random.count(1, 3);
    // Saved maps, in which every key is seen; and logits of causal ones.
    Settings settings;
    settings.causal = seed % 2 == 1;
    std::vector<double> numbers;
    for (std::size_t row = 0; row < H * T; ++row) {
      std::vector<double> logits(T, -std::numeric_limits<double>::infinity());
      double sum = 0;
      for (std::size_t j = 0; j < T; ++j)
        if (!settings.causal || j <= row % T) sum += std::exp(logits[j] = random.uniform(-3, 3));
      for (double logit : logits)
        numbers.push_back(settings.causal ? logit : std::exp(logit) / sum);
    }
    NamedTensors parts;
    parts[settings.causal ? "masked" : "weights"].tensor =
        Tensor::of<double>({1, H, T, T}, numbers);
    Layer layer = make_layer(parts, settings);
    label(layer, seed);
    INFO("seed " << seed << ": " << H << " heads, " << T << " tokens");
    CHECK(difference(measure_heads(layer).heads, reference::measure(layer), 1e-9) == "");
  }
}

TEST_CASE("every query by itself is measured as it is alone", "[measures]") {
  for (const std::uint64_t seed : {3U, 8U, 21U}) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 5), false);
    Layer layer = library_layer(random.layer, random.form);
    label(layer, seed);
    if (layer.dims.T == 0) continue;
    MeasureRequest each;
    each.each_query = each.each_batch = true, each.threads = 3;
    const std::vector<HeadMeasures> heads = measure_heads(layer, each).heads;
    CHECK(heads.size() == layer.dims.B * layer.dims.H * layer.dims.T);
    for (std::size_t t = 0; t < layer.dims.T; t += 2) {
      MeasureRequest one;
      one.selection.query = IndexList(std::to_string(t) + ":" + std::to_string(t + 1), "--query");
      one.each_batch = true;
      for (const HeadMeasures& wanted : measure_heads(layer, one).heads) {
        const HeadMeasures& got =
            heads[(wanted.batch.value_or(0) * layer.dims.H + wanted.head) * layer.dims.T + t];
        REQUIRE(got.query == t);
        CHECK(got.head == wanted.head);
        for (const Measure& measure : measures()) {
          const std::string name(measure.name);
          if (name == "similarity" || name == "nearest_head" || name.starts_with("rank_") ||
              name.starts_with("cond_") || name.starts_with("stiefel_"))
            continue;
          const std::optional<double> a = measure.of(got), b = measure.of(wanted);
          INFO("seed " << seed << " head " << got.head << " query " << t << " " << name);
          CHECK(a.has_value() == b.has_value());
          if (a && b) CHECK(std::memcmp(&*a, &*b, sizeof *a) == 0);
        }
      }
    }
  }
}
