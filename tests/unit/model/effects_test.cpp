#include "support/places.hpp"
#include <mha/model/effects.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/patcher.hpp>
#include <mha/model/stage_means.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <tuple>

// What heads and feed-forwards do to a prediction, against PyTorch's numbers for data/, against
// whole patched runs, and by the sum that direct effects are.

using namespace mha;

namespace {

struct Opened {
  std::unique_ptr<OpenedModel> model;

  Opened(const std::string& model, const Text& text, const std::vector<std::string>& patches = {},
         DType dtype = DType::f64) {
    RunRequest request;
    request.sources = {test::source_folder() + "/data/" + model};
    request.dtype = dtype;
    request.text = text;
    request.shows_ends = true;
    request.patches = std::make_shared<Patcher>();
    for (const std::string& patch : patches) request.patches->add(patch);
    this->model = std::make_unique<OpenedModel>(request);
  }
  std::shared_ptr<const TextLayers> layers() const { return model->text_layers(); }
  Tensor logits() { return trace(model->load("").layer, {Stage::logits}).value(Stage::logits); }
  PredictionRows rows(const std::vector<TextPosition>& places) {
    return {model->load("").layer, places, 0};
  }
};

Text ids_of(const std::vector<std::string>& ids) {
  Text text;
  text.ids = ids;
  return text;
}

const Effect& effect_of(const std::vector<Effect>& effects, Component part,
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
  const std::size_t T = opened.model->texts()->ids()[0].size();
  EffectsRequest request;
  for (std::size_t t = T / 2 + 1; t + 1 < T; ++t) request.places.emplace_back(0, t);
  CHECK(expected["zero_ablation"].size() == 8);
  const std::vector<Effect> means = mean_over_places(effects(*opened.layers(), request));
  double loss = 0; // of the second half
  const PredictionRows rows = opened.rows(request.places);
  for (std::size_t i = 0; i < rows.count(); ++i)
    loss -= log_probability(
        rows[i],
        static_cast<std::size_t>(opened.model->texts()->ids()[0][request.places[i].second + 1]));
  CHECK(loss / static_cast<double>(rows.count()) ==
        Approx(expected["loss_second_half"].get<double>()).margin(1e-6));
  Opened again("induction-model", text);
  request.places = {{0, T - 1}};
  const std::vector<Effect> last = effects(*again.layers(), request);
  for (const auto& head : expected["zero_ablation"]) {
    const auto layer = head["layer"].get<std::size_t>(), h = head["head"].get<std::size_t>();
    INFO(layer << "." << h);
    CHECK(effect_of(means, Component::head, layer, h).loss_change.value() ==
          Approx(head["loss_change_second_half"].get<double>()).margin(1e-6));
    const Effect& at_last = effect_of(last, Component::head, layer, h);
    CHECK(at_last.kl.value() == Approx(head["kl_last"].get<double>()).margin(1e-6));
    CHECK(!at_last.loss_change); // nothing follows the last token
  }
}

TEST_CASE("effects have the same bits whatever the threads", "[effects]") {
  for (const std::string model : {"bard-gpt2", "bard-llama"})
    for (const Ablation ablation : {Ablation::zero, Ablation::mean, Ablation::resample}) {
      const Text texts = ids_of({"5,17,20,31,8,9,44", "7,7,120,3,99,12,8"});
      std::vector<Effect> first;
      for (const std::size_t threads : {1U, 2U, 5U}) {
        EffectsRequest request;
        request.places = {{0, 2}, {0, 6}, {1, 5}};
        request.ablation = ablation, request.threads = threads;
        std::vector<double> shares;
        request.progress = [&](double share) { shares.push_back(share); };
        Opened opened(model, texts, {}, DType::f32);
        const std::vector<Effect> found = effects(*opened.layers(), request);
        if (first.empty()) first = found;
        REQUIRE(found.size() == first.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          INFO(model << ", " << threads << " threads, line " << i);
          CHECK(found[i].part == first[i].part);
          CHECK(found[i].kl == first[i].kl);
          CHECK(found[i].logit_change == first[i].logit_change);
          CHECK(found[i].direct == first[i].direct);
        }
        CHECK(std::is_sorted(shares.begin(), shares.end()));
        CHECK(shares.front() == 0);
        CHECK(shares.back() == 1);
      }
    }
}

TEST_CASE("effects of a position are the same whether runs share a stream of logits or not",
          "[effects]") {
  // One of seven positions: seven runs a stream; four of seven: each run its own, as where a patch
  // after the last layer names positions.
  for (const std::vector<std::string>& patches :
       {std::vector<std::string>{}, {"final[*,2] = zero"}, {"logits[*,4] *= 2"}})
    for (const std::string model : {"bard-gpt2", "bard-llama"}) {
      std::map<std::tuple<Component, std::size_t, std::size_t>, double> kl;
      for (const std::vector<TextPosition>& places :
           {std::vector<TextPosition>{{0, 2}, {0, 4}, {0, 5}, {0, 6}}, {{0, 4}}}) {
        EffectsRequest request;
        request.places = places;
        Opened opened(model, ids_of({"5,17,20,31,8,9,44"}), patches);
        for (const Effect& one : effects(*opened.layers(), request)) {
          if (one.position != 4 || !one.kl) continue;
          const std::tuple part{one.part, one.layer.value_or(99), one.head.value_or(99)};
          if (places.size() > 1)
            kl[part] = *one.kl;
          else
            CHECK(kl.at(part) == *one.kl);
        }
      }
      CHECK(kl.size() == 4 * 8);
    }
}

TEST_CASE("effects have the bits of whole runs of their own", "[effects]") {
  for (const std::string model : {"bard-gpt2", "bard-llama", "induction-model"})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Text text = ids_of({"5,17,20,31,8,9,44"});
      EffectsRequest request;
      request.places = {{0, 2}, {0, 6}};
      const PredictionRows clean = Opened(model, text, {}, dtype).rows(request.places);
      const std::vector<Distribution> p{Distribution(clean[0]), Distribution(clean[1])};
      Opened opened(model, text, {}, dtype);
      for (const Effect& one : effects(*opened.layers(), request)) {
        std::string place;
        if (one.part == Component::head) place = fmt::format("head_out[{}]", *one.head);
        if (one.part == Component::attention) place = "head_out";
        if (one.part == Component::mlp) place = "mlp_out";
        if (place.empty()) continue;
        const std::string patch = fmt::format("layers.{}.{} = zero", *one.layer, place);
        INFO(model << " " << patch << " " << one.position);
        const PredictionRows patched = Opened(model, text, {patch}, dtype).rows(request.places);
        const std::size_t i = one.position == 2 ? 0 : 1, top = clean[i].top();
        CHECK(one.kl.value() == p[i].to(patched[i]).divergence);
        CHECK(one.logit_change.value() == patched[i].at(top) - clean[i].at(top));
        if (i == 0)
          CHECK(one.loss_change.value() ==
                Approx(log_probability(clean[0], 31) - log_probability(patched[0], 31))
                    .margin(1e-14));
      }
    }
}

TEST_CASE("prediction rows: divergence and losses by their definitions", "[effects]") {
  Opened opened("bard-gpt2", ids_of({"5,17,200,31"})), other("bard-gpt2", ids_of({"5,18,200,31"}));
  const std::vector<TextPosition> places{{0, 3}, {0, 1}};
  const PredictionRows p = opened.rows(places), q = other.rows(places);
  const Tensor P = opened.logits(), Q = other.logits();
  for (const std::size_t i : {0u, 1u}) {
    const std::size_t position = places[i].second;
    CHECK(Distribution(p[i]).to(q[i]).divergence ==
          Approx(divergence(P, Q, position)).margin(1e-13));
    CHECK(Distribution(p[i]).to(p[i]).divergence == 0);
    double sum = 0;
    for (std::size_t k = 0; k < p[0].width(); ++k)
      sum += std::exp(value_at(P, position * p[0].width() + k));
    CHECK(log_probability(p[i], 7) ==
          Approx(value_at(P, position * p[0].width() + 7) - std::log(sum)).margin(1e-13));
    CHECK(Distribution(p[i]).log_p(p[i].at(7)) == Approx(log_probability(p[i], 7)).margin(1e-14));
    const std::vector<double> logits = p[i].in_double();
    CHECK(logits[p[i].top()] == *std::ranges::max_element(logits));
  }
  // A token that both rule out counts nothing; one that q alone rules out makes it infinite.
  const double none = -std::numeric_limits<double>::infinity();
  const auto rows_of = [](std::vector<double> numbers) {
    return PredictionRows(Tensor::of<double>({1, numbers.size()}, numbers));
  };
  const PredictionRows some = rows_of({1, 2, none, 0.5}), same = rows_of({1, 1, none, 1}),
                       fewer = rows_of({1, none, none, 1});
  const double sum = std::exp(1) + std::exp(2) + std::exp(0.5);
  const double kl = (std::exp(2) * (1 + std::log(3 * std::exp(1) / sum)) +
                     std::exp(1) * std::log(3 * std::exp(1) / sum) +
                     std::exp(0.5) * (std::log(3 * std::exp(1) / sum) - 0.5)) /
                    sum;
  CHECK(Distribution(some[0]).to(same[0]).divergence == Approx(kl).margin(1e-14));
  CHECK(Distribution(some[0]).to(fewer[0]).divergence == std::numeric_limits<double>::infinity());
}

TEST_CASE("effects: means and next texts from outside are those of all texts at once",
          "[effects]") {
  const std::vector<std::string> ids{"5,17,200,31", "8,90,44,3", "7,7,12,1"};
  for (const Ablation ablation : {Ablation::mean, Ablation::resample}) {
    EffectsRequest request;
    request.ablation = ablation,
    request.set = {parse_edit(std::string("layers.-1.mlp_out = ") +
                              (ablation == Ablation::mean ? "mean" : "from the next text"))};
    Opened all("bard-gpt2", ids_of(ids));
    request.places = {{0, 3}, {1, 3}, {2, 3}};
    const std::vector<Effect> whole = effects(*all.layers(), request);
    const auto means = std::make_shared<StageMeans>();
    for (const std::string& one : ids) {
      Opened some("bard-gpt2", ids_of({one}));
      add_to_means(*some.layers(), request, *means);
    }
    request.places = {{0, 3}};
    for (std::size_t b = 0; b < ids.size(); ++b) {
      Opened here("bard-gpt2", ids_of({ids[b]})), next("bard-gpt2", ids_of({ids[(b + 1) % 3]}));
      if (ablation == Ablation::mean) request.means = means;
      if (ablation == Ablation::resample) request.next = next.layers();
      const std::vector<Effect> alone = effects(*here.layers(), request);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        INFO(b << " " << name_of(alone[i].part));
        CHECK(alone[i].part == whole[3 * i + b].part);
        CHECK(alone[i].kl == whole[3 * i + b].kl);
        CHECK(alone[i].logit_change == whole[3 * i + b].logit_change);
      }
    }
  }
}

TEST_CASE("effects: positions of the next text are counted from the ends", "[effects]") {
  const std::string here = "5,17,200,31,8,90", next = "12,44,3,7"; // two tokens shorter
  Opened texts("bard-gpt2", ids_of({here, next}));
  EffectsRequest request;
  request.ablation = Ablation::resample, request.align_end = true;
  request.places = {{0, 5}, {1, 3}};
  request.set = {parse_edit("layers.2.head_out[1] = from the next text")};
  const std::vector<Effect> found = effects(*texts.layers(), request);
  Opened long_text("bard-gpt2", ids_of({here})), short_text("bard-gpt2", ids_of({next}));
  const Tensor from = trace(short_text.model->load("2").layer, {Stage::head_out})
                          .value(Stage::head_out); // 1?, H, 4, d_v
  const std::size_t d = from.shape().back();
  const Tensor values = [&] {
    Tensor rows(DType::f64, {1, 4, d});
    for (std::size_t i = 0; i < 4 * d; ++i)
      rows.as_mutable<double>()[i] = value_at(from, 1 * 4 * d + i);
    return rows;
  }();
  StageEdit edit = parse_edit("layers.2.head_out[1,2-5] = 0");
  edit.value = EditValue::of_tensor(values);
  const std::shared_ptr<const TextLayers> made = long_text.layers();
  const TextLayers& layers = *made;
  Advance way;
  way.patch = [&](Layer& layer, std::size_t n) {
    if (n == 2) layer.patches.add(patch_of(edit, layer, n, {}));
  };
  const Residual last = advance(layers, layers.embedded(), layers.count(), way);
  const PredictionRows patched(layers.ends(last.x), {{0, 5}}, 0);
  const PredictionRows clean = long_text.rows({{0, 5}});
  const double kl = Distribution(clean[0]).to(patched[0]).divergence;
  CHECK(effect_of(found, Component::head, 2, 1).kl.value() == kl);
  CHECK(effect_of(found, Component::set).kl.value() == kl);
  request.align_end = false;
  CHECK_THROWS_WITH(effects(*texts.layers(), request), Catch::Contains("align end"));
}

TEST_CASE("effects are those of whole patched runs") {
  for (const std::string model : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    const Text text = ids_of({"5,17,200,31,8,90,44"});
    Opened clean_run(model, text);
    const Tensor clean = clean_run.logits();
    Opened opened(model, text);
    EffectsRequest request;
    request.places = {{0, 2}, {0, 6}};
    const std::vector<Effect> found = effects(*opened.layers(), request);
    for (const auto& [part, layer, head, patch] :
         {std::tuple(Component::head, 0, std::optional<std::size_t>(1), "layers.0.head_out[1] = 0"),
          {Component::head, 2, std::optional<std::size_t>(3), "layers.2.head_result[3] = zero"},
          {Component::attention, 1, std::nullopt, "layers.1.head_out = zero"},
          {Component::mlp, 3, std::nullopt, "layers.3.mlp_out = zero"}}) {
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
        for (const Effect& one : effects(*opened.layers(), request))
          if (one.part != Component::attention) sum += one.direct.value();
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
  for (const Effect& one : effects(*opened.layers(), request))
    CHECK(!one.direct); // blocks that normalise the sum, and a head with a layer of its own
}

TEST_CASE("a part is replaced by its mean, or by the next text's") {
  const Text texts = ids_of({"5,17,200,31", "8,90,44,3"});
  for (const Ablation ablation : {Ablation::mean, Ablation::resample}) {
    Opened opened("bard-gpt2", texts);
    EffectsRequest request;
    request.ablation = ablation;
    request.places = {{0, 3}, {1, 3}};
    const std::vector<Effect> found = effects(*opened.layers(), request);
    const bool mean = ablation == Ablation::mean;
    const Tensor clean = Opened("bard-gpt2", texts).logits();
    const std::string patch =
        mean ? "layers.1.head_out[2] = mean" : "layers.1.head_out[2] = from ids 8,90,44,3";
    const Tensor other = Opened("bard-gpt2", texts, {patch}).logits();
    const Effect& first = effect_of(found, Component::head, 1, 2);
    CHECK(first.kl.value() == Approx(divergence(clean, other, 3)).margin(1e-10));
  }
  Opened one("bard-gpt2", ids_of({"5,17"}));
  EffectsRequest request;
  request.ablation = Ablation::resample;
  request.places = {{0, 1}};
  CHECK_THROWS_WITH(effects(*one.layers(), request),
                    Catch::Contains("this is one text; give several"));
  Opened unequal("bard-gpt2", ids_of({"5,17", "5,17,3"}));
  CHECK_THROWS_WITH(effects(*unequal.layers(), request),
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
    request.set = {parse_edit(std::string("layers.1.head_out[2]") + value)};
    std::vector<Effect> found = effects(*opened.layers(), request);
    std::vector<Effect> head, set;
    for (const Effect& one : found) {
      if (one.part == Component::set) set.push_back(one);
      if (one.part == Component::head && one.layer == 1 && one.head == 2) head.push_back(one);
    }
    REQUIRE(set.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(set[i].kl.value() == Approx(head[i].kl.value()).epsilon(1e-12));
      CHECK(set[i].logit_change.value() == Approx(head[i].logit_change.value()).epsilon(1e-12));
    }
    // Two places of two layers: as the patched run.
    request.set.push_back(parse_edit(std::string("layers.0.mlp_out") + value));
    found = effects(*opened.layers(), request);
    CHECK(found.back().part == Component::set);
    CHECK(found.back().kl != set[1].kl);
    if (ablation != Ablation::zero) continue;
    Opened patched("bard-gpt2", ids_of(ids),
                   {"layers.1.head_out[2] = zero", "layers.0.mlp_out = zero"});
    const Tensor clean = Opened("bard-gpt2", ids_of(ids)).logits(), changed = patched.logits();
    CHECK(found.back().kl.value() == Approx(divergence(clean, changed, 13)).epsilon(1e-9));
    request.set = {parse_edit("layers.4.q = zero")};
    CHECK_THROWS_WITH(effects(*opened.layers(), request), Catch::Contains("there is no layer 4"));
    request.set = {parse_edit("layers.-5.q = zero")};
    CHECK_THROWS_WITH(effects(*opened.layers(), request), Catch::Contains("there is no layer -5"));
    request.set = {parse_edit("layers.-3.head_out[2] = zero")};
    CHECK(effects(*opened.layers(), request).back().kl == head[1].kl);
    request.set = {parse_edit("q = zero")};
    CHECK_THROWS_WITH(effects(*opened.layers(), request), Catch::Contains("layers.N.q"));
  }
}
