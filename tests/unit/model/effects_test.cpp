#include "support/places.hpp"
#include <mha/model/effects.hpp>
#include <mha/model/patcher.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

// What heads and feed-forwards do to a prediction, against PyTorch's numbers for data/, against
// whole patched runs, and by the sum that direct effects are.

using namespace mha;

namespace {

struct Opened {
  std::shared_ptr<ModelPass> pass = std::make_shared<ModelPass>();
  Patcher patcher;
  std::unique_ptr<Sources> sources;

  Opened(const std::string& model, const Text& text, const std::vector<std::string>& patches = {},
         DType dtype = DType::f64) {
    Request request;
    request.sources = {test::source_folder() + "/data/" + model};
    request.dtype = dtype;
    pass->text = text;
    request.inputs = pass;
    request.shows_ends = true;
    for (const std::string& patch : patches) patcher.add(patch);
    request.patch_layer = [this](Layer& layer, const std::string& id, const Sources& opened,
                                 const Request& asked) { patcher.patch(layer, id, opened, asked); };
    sources = std::make_unique<Sources>(request);
  }
  Tensor logits() { return trace(sources->load("").layer, {Stage::logits}).value(Stage::logits); }
};

Text ids_of(const std::vector<std::string>& ids) {
  Text text;
  text.ids = ids;
  return text;
}

const Effect& effect_of(const std::vector<Effect>& effects, Contributor part,
                        std::optional<std::size_t> layer = {},
                        std::optional<std::size_t> head = {}) {
  const auto at = std::ranges::find_if(effects, [&](const Effect& one) {
    return one.part == part && one.layer == layer && one.head == head;
  });
  REQUIRE(at != effects.end());
  return *at;
}

/// D(p ‖ q) of the softmax of two rows of logits.
double divergence(const Tensor& p, const Tensor& q, std::size_t row) {
  const std::size_t n = p.shape().back();
  double sum_p = 0, sum_q = 0, kl = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum_p += std::exp(value_at(p, row * n + i)), sum_q += std::exp(value_at(q, row * n + i));
  for (std::size_t i = 0; i < n; ++i) {
    const double zp = value_at(p, row * n + i) - std::log(sum_p),
                 zq = value_at(q, row * n + i) - std::log(sum_q);
    kl += std::exp(zp) * (zp - zq);
  }
  return kl;
}

} // namespace

TEST_CASE("effects of heads are PyTorch's") {
  std::ifstream file(test::source_folder() + "/data/induction-model/expected/effects.json");
  const nlohmann::json expected = nlohmann::json::parse(file);
  Text text;
  text.files = {test::source_folder() + "/data/induction-model/expected/repeat.txt"};
  Opened opened("induction-model", text);
  const std::size_t T = opened.pass->ids()[0].size();
  EffectsRequest request;
  for (std::size_t t = T / 2 + 1; t + 1 < T; ++t) request.places.emplace_back(0, t);
  const std::vector<Effect> means =
      mean_over_places(effects(TextLayers(*opened.sources, opened.pass), request));
  Opened again("induction-model", text);
  request.places = {{0, T - 1}};
  const std::vector<Effect> last = effects(TextLayers(*again.sources, again.pass), request);
  for (const auto& head : expected["zero_ablation"]) {
    const auto layer = head["layer"].get<std::size_t>(), h = head["head"].get<std::size_t>();
    INFO(layer << "." << h);
    CHECK(effect_of(means, Contributor::head, layer, h).loss_change.value() ==
          Approx(head["loss_change_second_half"].get<double>()).margin(1e-6));
    const Effect& at_last = effect_of(last, Contributor::head, layer, h);
    CHECK(at_last.kl.value() == Approx(head["kl_last"].get<double>()).margin(1e-6));
    CHECK(!at_last.loss_change); // nothing follows the last token
  }
}

TEST_CASE("effects are those of whole patched runs") {
  for (const std::string model : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    const Text text = ids_of({"5,17,200,31,8,90,44"});
    Opened clean_run(model, text);
    const Tensor clean = clean_run.logits();
    Opened opened(model, text);
    EffectsRequest request;
    request.places = {{0, 2}, {0, 6}};
    const std::vector<Effect> found = effects(TextLayers(*opened.sources, opened.pass), request);
    for (const auto& [part, layer, head, patch] :
         {std::tuple(Contributor::head, 0, std::optional<std::size_t>(1),
                     "layers.0.head_out[1] = 0"),
          {Contributor::head, 2, std::optional<std::size_t>(3), "layers.2.head_result[3] = zero"},
          {Contributor::attention, 1, std::nullopt, "layers.1.head_out = zero"},
          {Contributor::mlp, 3, std::nullopt, "layers.3.mlp_out = zero"}}) {
      INFO(model << " " << patch);
      Opened patched(model, text, {patch});
      const Tensor other = patched.logits();
      for (const std::size_t position : {2u, 6u}) {
        auto at = found.begin(); // Clang 14 captures no structured binding
        while (at != found.end() && !(at->part == part && at->layer == std::size_t(layer) &&
                                      at->head == head && at->position == position))
          ++at;
        REQUIRE(at != found.end());
        CHECK(at->kl.value() == Approx(divergence(clean, other, position)).margin(1e-12));
        CHECK(at->loss_change.has_value() == (model != "bard-bert" && position == 2));
      }
    }
  }
}

TEST_CASE("direct effects add up to the logit, or to a difference of two") {
  for (const std::string model : {"bard-gpt2", "bard-llama", "induction-model"})
    for (const bool centre : {false, true})
      for (const std::optional<int> versus : {std::optional<int>(), std::optional<int>(7)}) {
        const Text text = ids_of({"5,17,20,31,8,9,44"});
        const Tensor logits = Opened(model, text).logits();
        Opened opened(model, text);
        EffectsRequest request;
        request.places = {{0, 3}};
        request.answer = 11, request.versus = versus, request.centre = centre;
        double sum = 0;
        for (const Effect& one : effects(TextLayers(*opened.sources, opened.pass), request))
          if (one.part != Contributor::attention) sum += one.direct.value();
        const std::size_t V = logits.shape().back();
        double want = value_at(logits, 3 * V + 11);
        if (versus) want -= value_at(logits, 3 * V + 7);
        for (std::size_t i = 0; centre && i < V; ++i)
          want -= value_at(logits, 3 * V + i) / static_cast<double>(V);
        INFO(model << centre << versus.has_value());
        CHECK(sum == Approx(want).margin(1e-10));
      }
  Opened opened("bard-bert", ids_of({"5,17,200"}));
  EffectsRequest request;
  request.places = {{0, 1}};
  for (const Effect& one : effects(TextLayers(*opened.sources, opened.pass), request))
    CHECK(!one.direct); // blocks that normalise the sum, and a head with a layer of its own
}

TEST_CASE("a part is replaced by its mean, or by the next text's") {
  const Text texts = ids_of({"5,17,200,31", "8,90,44,3"});
  for (const Ablation ablation : {Ablation::mean, Ablation::resample}) {
    Opened opened("bard-gpt2", texts);
    EffectsRequest request;
    request.ablation = ablation;
    request.places = {{0, 3}, {1, 3}};
    const std::vector<Effect> found = effects(TextLayers(*opened.sources, opened.pass), request);
    const bool mean = ablation == Ablation::mean;
    const Tensor clean = Opened("bard-gpt2", texts).logits();
    const std::string patch =
        mean ? "layers.1.head_out[2] = mean" : "layers.1.head_out[2] = from ids 8,90,44,3";
    const Tensor other = Opened("bard-gpt2", texts, {patch}).logits();
    const Effect& first = effect_of(found, Contributor::head, 1, 2);
    CHECK(first.kl.value() == Approx(divergence(clean, other, 3)).margin(1e-10));
  }
  Opened one("bard-gpt2", ids_of({"5,17"}));
  EffectsRequest request;
  request.ablation = Ablation::resample;
  request.places = {{0, 1}};
  CHECK_THROWS_WITH(effects(TextLayers(*one.sources, one.pass), request),
                    Catch::Contains("this is one text; give several"));
  Opened unequal("bard-gpt2", ids_of({"5,17", "5,17,3"}));
  CHECK_THROWS_WITH(effects(TextLayers(*unequal.sources, unequal.pass), request),
                    Catch::Contains("text 0 has 2 tokens, text 1 has 3"));
}

TEST_CASE("effects: a set is taken out together", "[effects]") {
  const std::vector<std::string> ids{"5,9,3,7,11,3,7", "2,4,6,8,10,12,14"};
  for (const Ablation ablation : {Ablation::zero, Ablation::mean, Ablation::resample}) {
    const Opened opened("bard-gpt2", ids_of(ids));
    const char* const value = ablation == Ablation::zero   ? " = zero"
                              : ablation == Ablation::mean ? " = mean"
                                                           : " = from the next text";
    EffectsRequest request;
    request.places = {{0, 6}, {1, 6}}, request.ablation = ablation;
    request.set = {parse_patch(std::string("layers.1.head_out[2]") + value)};
    std::vector<Effect> found = effects(TextLayers(*opened.sources, opened.pass), request);
    std::vector<Effect> head, set;
    for (const Effect& one : found) {
      if (one.part == Contributor::set) set.push_back(one);
      if (one.part == Contributor::head && one.layer == 1 && one.head == 2) head.push_back(one);
    }
    REQUIRE(set.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(set[i].kl.value() == Approx(head[i].kl.value()).epsilon(1e-12));
      CHECK(set[i].logit_change.value() == Approx(head[i].logit_change.value()).epsilon(1e-12));
    }
    // Two places of two layers: as the patched run.
    request.set.push_back(parse_patch(std::string("layers.0.mlp_out") + value));
    found = effects(TextLayers(*opened.sources, opened.pass), request);
    CHECK(found.back().part == Contributor::set);
    CHECK(found.back().kl != set[1].kl);
    if (ablation != Ablation::zero) continue;
    Opened patched("bard-gpt2", ids_of(ids),
                   {"layers.1.head_out[2] = zero", "layers.0.mlp_out = zero"});
    const Tensor clean = Opened("bard-gpt2", ids_of(ids)).logits(), changed = patched.logits();
    CHECK(found.back().kl.value() == Approx(divergence(clean, changed, 13)).epsilon(1e-9));
    request.set = {parse_patch("layers.4.q = zero")};
    CHECK_THROWS_WITH(effects(TextLayers(*opened.sources, opened.pass), request),
                      Catch::Contains("there is no layer 4"));
    request.set = {parse_patch("q = zero")};
    CHECK_THROWS_WITH(effects(TextLayers(*opened.sources, opened.pass), request),
                      Catch::Contains("layers.N.q"));
  }
}
