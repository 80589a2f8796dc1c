// Diagnosis for programs: causes as data, of models and layers, from files and tensors.

#include "unit/api/layers.hpp"

#include <mha/diagnose.hpp>

#include <algorithm>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

/// Every stage of a run, under its own name.
Tensors saved_by(const Run& run) {
  Tensors saved;
  for (const std::string& name : run.kept()) saved.emplace_back(name, run.tensor(name));
  return saved;
}

Tensors saved_with(const std::string& setting, const std::string& value,
                   std::vector<std::string> keep) {
  const Model theirs(data("bard-gpt2"), {.settings = {{setting, value}}});
  return saved_by(theirs.run(theirs.tokens("To be, or not to be"), {.keep = std::move(keep)}));
}

} // namespace

TEST_CASE("api: a model's diagnosis names the cause in each layer, and what does the same",
          "[api][diagnose]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("To be, or not to be");
  double done = -1;
  const Findings found = diagnose(model, text, {.tensors = saved_with("scale", "none", {"*"})},
                                  {.progress = [&](double share) { done = share; }});
  CHECK(found.explained);
  CHECK_FALSE(found.equal);
  CHECK(done > 0);
  CHECK(found.not_compared.empty());
  std::size_t layers = 0;
  for (const Finding& place : found.places) {
    INFO(place.place);
    CHECK(place.explained);
    if (!place.place.starts_with("layers.")) {
      CHECK(place.equal);
      continue;
    }
    CHECK(place.place == "layers." + std::to_string(layers++));
    CHECK_THAT(place.layer, Contains(" heads × 16"));
    REQUIRE(place.causes.size() == 1);
    const FoundCause& cause = place.causes[0];
    CHECK(cause.id == "scale.missing");
    CHECK(cause.stage == Stage::scaled);
    CHECK_THAT(cause.change, Catch::StartsWith("the reference "));
    CHECK_FALSE(cause.cure.empty());
    CHECK(cause.option == "--scale 1");
    REQUIRE(cause.settings.size() == 1);
    CHECK(cause.settings[0] == std::pair<std::string, std::string>("scale", "1"));
    REQUIRE_FALSE(place.stages.empty());
    for (const ComparedStage& stage : place.stages) CHECK(stage.after <= 1e-4);
  }
  CHECK(layers == model.layers());
  // With these settings the model is the reference's.
  const auto one = std::ranges::find_if(found.places,
                                        [](const Finding& place) { return !place.causes.empty(); });
  const Model again(data("bard-gpt2"), {.settings = one->causes[0].settings});
  const Findings none = diagnose(again, again.tokens("To be, or not to be"),
                                 {.tensors = saved_with("scale", "none", {"*"})});
  CHECK(none.equal);
}

TEST_CASE("api: a comparison has a verdict, and each stage's difference", "[api][diagnose]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("To be, or not to be");
  Tensors saved = saved_by(model.run(text, {.keep = {"layers.1.*", "logits"}}));
  Differences found = diff(model, text, {.tensors = saved});
  CHECK(found.verdict == "equal");
  CHECK(found.not_compared.empty());
  REQUIRE(found.places.size() == 2);
  CHECK(found.places[0].place == "layers.1");
  CHECK(found.places[1].place == "model");
  for (const StageDifference& one : found.places[0].stages) CHECK(one.status == "equal");
  // An element of the weights is off: they are the first, and what follows is sound.
  Tensor& weights =
      std::ranges::find(saved, "layers.1.weights", &Tensors::value_type::first)->second;
  weights = Tensor::of<float>(weights.shape(), weights.as<float>());
  const std::size_t T = weights.shape().back();
  weights.as_mutable<float>()[(2 * T + 5) * T + 3] += 0.5F;
  found = diff(model, text, {.tensors = saved});
  CHECK(found.verdict == "differs");
  CHECK(found.places[0].first == Stage::weights);
  const auto row =
      std::ranges::find(found.places[0].stages, Stage::weights, &StageDifference::stage);
  REQUIRE(row != found.places[0].stages.end());
  CHECK(row->status == "first");
  CHECK(row->mismatched == 1);
  CHECK(row->at == std::vector<std::size_t>{2, 5, 3});
  CHECK(row->max_abs == Approx(0.5).epsilon(1e-5));
  CHECK(row->own == true);
  CHECK(found.places[1].verdict == "equal");
  CHECK(diff(model, text, {.tensors = saved}, {.stages = {Stage::q}}).verdict == "equal");
  CHECK(diff(model, text, {.tensors = saved}, {.absolute = 0.6}).verdict == "equal");
  CHECK_THROWS_WITH(
      diff(model, text, {.tensors = {{"layers.1.q", saved[0].second}}}, {.stages = {Stage::k}}),
      Contains("k was asked for and not saved"));
  CHECK_THROWS_WITH(diff(model, text, {}), Contains("nothing is given to compare with"));
}

TEST_CASE("api: a lone layer is compared, and what was not is no equal verdict",
          "[api][diagnose]") {
  const Layer ours = layer(small_tensors<double>(), {.num_heads = 2, .causal = true});
  const Layer theirs = layer(small_tensors<double>(), {.num_heads = 2});
  const Tensor output = run(ours, {"output"}).tensor("output");
  const Differences same = diff(ours, {.tensors = {{"output", output}}});
  CHECK(same.verdict == "equal");
  CHECK(same.compared == "output");
  const Differences other = diff(theirs, {.tensors = {{"output", output}}});
  CHECK(other.verdict == "differs");
  CHECK(other.places.at(0).first == Stage::output);
  // A shape that is not the stage's is a difference.
  CHECK(diff(ours, {.tensors = {{"output", output}, {"q", numbers({7, 3}, 1)}}}).verdict ==
        "differs");
}

TEST_CASE("api: a model's own stages agree, and what is no stage of it is said",
          "[api][diagnose]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("To be, or not to be");
  Tensors saved = saved_by(model.run(text, {.keep = {"layers.1.*", "logits"}}));
  Findings found = diagnose(model, text, {.tensors = saved});
  CHECK(found.equal);
  CHECK(found.explained);
  CHECK_THAT(found.compared, Contains("logits"));
  saved.emplace_back("layers.9.q", saved[0].second);
  found = diagnose(model, text, {.tensors = saved});
  CHECK_FALSE(found.equal);
  REQUIRE(found.not_compared.size() == 1);
  CHECK_THAT(found.not_compared[0], Contains("layers.9 (the model's layers are 0 to 3)"));
}

TEST_CASE("api: a layer's diagnosis, from its output alone", "[api][diagnose]") {
  const Layer ours = layer(small_tensors<double>(), {.num_heads = 2, .causal = true});
  const Layer theirs = layer(small_tensors<double>(), {.num_heads = 2});
  const Tensor output = run(theirs, {"output"}).tensor("output");
  const Findings found = diagnose(ours, {.tensors = {{"output", output}}});
  CHECK(found.explained);
  REQUIRE(found.places.size() == 1);
  REQUIRE(found.places[0].causes.size() == 1);
  CHECK(found.places[0].place.empty());
  CHECK(found.places[0].causes[0].option == "--no-causal");
  CHECK(diagnose(theirs, {.tensors = {{"layers.1.output", output}}}, 1).equal);
}

TEST_CASE("api: a diagnosis without a reference, or of another text, is an error",
          "[api][diagnose]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("To be, or not to be");
  CHECK(error_of([&] { diagnose(model, text, {}); }) ==
        "nothing is given to compare with: files or tensors expected");
  CHECK_THAT(error_of([&] { diagnose(model, text, {.files = {"nowhere.npz"}}); }),
             Contains("nowhere.npz: no such file"));
  CHECK_THAT(error_of([&] {
               diagnose(model, text, {.tensors = {{"what", numbers({3, 4}, 1)}}});
             }),
             Contains("no stage of this model is in it") && !Contains("--"));
  const Model changed = model.with("layers.0.W_q", numbers({96, 96}, 1));
  CHECK_THAT(error_of([&] {
               diagnose(changed, text, {.tensors = {{"logits", Tensor()}}});
             }),
             Contains("exchanged"));
}
