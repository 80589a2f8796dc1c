// What parts of a model write, against direct effects, the logit lens and plain loops.

#include "support/places.hpp"

#include <mha/model/effects.hpp>
#include <mha/model/part_logits.hpp>
#include <mha/model/predict.hpp>
#include <mha/naming/stage_names.hpp>

#include <catch2/catch.hpp>

#include <cmath>

using namespace mha;
using Catch::Contains;

namespace {

struct OneText {
  std::optional<OpenedModel> model;
  std::optional<TextLayers> layers;

  explicit OneText(const std::string& name) {
    RunRequest request;
    request.text.ids = {"5,9,3,7,11", "2,4,6"};
    request.sources = {test::source_folder() + "/data/" + name};
    request.dtype = DType::f64, request.shows_ends = true;
    model.emplace(std::move(request));
    layers.emplace(model->sources(), model->texts());
  }
};

const std::vector<TextPosition> places{{0, 4}, {1, 1}};

} // namespace

TEST_CASE("part logits: what a part adds to a token's logit is its direct effect", "[model]") {
  for (const char* name : {"bard-gpt2", "bard-llama", "induction-model"}) {
    INFO(name);
    const OneText text(name);
    EffectsRequest request;
    request.places = places, request.answer = 17;
    std::size_t compared = 0;
    for (const Effect& effect : effects(*text.layers, request)) {
      if (!effect.layer || !effect.direct) continue;
      const std::string layer = "layers." + std::to_string(*effect.layer);
      std::string part;
      if (effect.part == Component::head)
        part = layer + ".head_result[" + std::to_string(*effect.head) + "]";
      if (effect.part == Component::mlp) part = layer + ".mlp_out";
      if (part.empty()) continue;
      const std::vector<PartLogits> found =
          part_logits(*text.layers, parse_place(part, part, stage_of_place_named), {{effect.batch, effect.position}}, 0);
      REQUIRE(found.size() == 1);
      CHECK(found[0].logits[17] == Approx(*effect.direct).epsilon(1e-9).margin(1e-11));
      ++compared;
    }
    CHECK(compared > 6);
  }
}

TEST_CASE("part logits: a stage of the stream has the logits of the logit lens", "[model]") {
  OneText text("bard-gpt2"), lens("bard-gpt2");
  PredictRequest request;
  request.positions = {1, 4}, request.each_layer = true, request.top = 3;
  std::size_t compared = 0;
  for (const Prediction& one : predict(*lens.model, request).list) {
    const std::string stage = "layers." + std::to_string(*one.layer) + ".resid_post";
    const auto found =
        part_logits(*text.layers, parse_place(stage, stage, stage_of_place_named), {{one.batch, one.position}}, 0);
    for (const Candidate& candidate : one.candidates)
      CHECK(found[0].logits[static_cast<std::size_t>(candidate.id)] == candidate.logit);
    ++compared;
  }
  CHECK(compared >= 12);
}

TEST_CASE("part logits: a vector goes through centring and gain alone", "[model]") {
  const OneText text("bard-gpt2");
  const WholeModel& model = text.model->texts()->model();
  const std::size_t d = model.width();
  Tensor vector(DType::f64, {d});
  for (std::size_t i = 0; i < d; ++i)
    vector.as_mutable<double>()[i] = std::sin(1.0 + static_cast<double>(i));
  const std::vector<double> logits = vector_logits(*text.layers, vector);
  double mean = 0;
  for (std::size_t i = 0; i < d; ++i) mean += value_at(vector, i) / static_cast<double>(d);
  for (const std::size_t token : {std::size_t(0), std::size_t(7), std::size_t(1023)}) {
    double sum = 0;
    for (std::size_t i = 0; i < d; ++i)
      sum += (value_at(vector, i) - mean) * value_at(model.last_norm().weight, i) *
             value_at(model.head().decoder.W, i * model.head().decoder.out() + token);
    CHECK(logits[token] == Approx(sum).epsilon(1e-12));
  }
}

TEST_CASE("part logits: what is no part of the stream is said", "[model]") {
  const OneText gpt("bard-gpt2"), bert("bard-bert");
  const auto refused = [](const OneText& text, const char* part, const char* message) {
    CHECK_THROWS_WITH(part_logits(*text.layers, parse_place(part, part, stage_of_place_named), places, 0),
                      Contains(message));
  };
  refused(gpt, "layers.1.q", "a stage of the stream");
  refused(gpt, "logits", "a stage of the stream");
  refused(gpt, "output", "of which layer?");
  refused(gpt, "layers.4.output", "there is no layer 4");
  refused(gpt, "layers.1.head_result[6]", "6");
  refused(bert, "layers.1.head_result[0]", "the block normalises the sum");
  CHECK_THROWS_WITH(vector_logits(*gpt.layers, Tensor(DType::f32, {5})),
                    Contains("96 numbers expected"));
}
