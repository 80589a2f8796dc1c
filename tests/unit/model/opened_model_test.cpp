// The stream between a model's layers is the same, whatever command computes them and whichever
// of them are asked for.

#include "support/places.hpp"

#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/predict.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cstring>
#include <thread>

using namespace mha;
using Catch::Matchers::Contains;

namespace {

struct Opened {
  std::optional<OpenedModel> model;

  Opened(const std::string& name, std::vector<std::string> ids, const std::string& layers = "",
         bool keeps_layers = false) {
    RunRequest request;
    request.text.ids = std::move(ids);
    request.sources = {test::source_folder() + "/data/" + name};
    request.layer = layers;
    request.keeps_layers = keeps_layers;
    model.emplace(std::move(request));
    model->threads = 1;
  }
  std::size_t made() const { return model->sources().counts()->made; }
  std::size_t computed() const { return model->sources().counts()->computed; }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// What each layer begins with, one run after the other, in which only that layer is chosen.
std::vector<Tensor> streams_of(const std::string& name, const std::vector<std::string>& ids) {
  std::vector<Tensor> streams;
  for (const char* layer : {"0", "1", "2", "3"})
    streams.push_back(Opened(name, ids, layer).model->load(layer).layer.X);
  return streams;
}

Selection selected(const char* batch, const char* head, const char* query) {
  Selection selection;
  if (batch) selection.batch = IndexList(batch, "--batch");
  if (head) selection.head = IndexList(head, "--head");
  if (query) selection.query = IndexList(query, "--query");
  return selection;
}

const std::vector<std::string> one{"1,5,9,2,7"}, several{"3,1,4", "1,5,9,2", "6"};

} // namespace

TEST_CASE("what layers before a chosen one take is counted as computing", "[model]") {
  Opened opened("bard-llama", one, "3");
  opened.model->load("3");
  REQUIRE(opened.model->times().size() == 3); // layers 0 to 2, of which no observer sees anything
  double phases = 0;
  for (const LayerTimes& times : opened.model->times()) {
    CHECK(times.phases.seconds[Phase::projections] > 0);
    CHECK(times.phases.seconds[Phase::around] > 0);
    for (const double seconds : times.phases.seconds) phases += seconds;
  }
  // The phases were timed within what is counted.
  CHECK(opened.model->computed_s >= phases);
}

TEST_CASE("model: whatever is asked of a layer, the next one begins with the same bits") {
  struct Question {
    std::vector<Stage> stages;
    Selection selection;
  };
  for (const auto& [name, ids] : {std::pair("bard-gpt2", one),
                                  {"bard-llama", one},
                                  {"bard-bert", one},
                                  {"bard-llama", several},
                                  {"bard-bert", several}}) {
    const std::vector<Tensor> expected = streams_of(name, ids);
    const bool batched = ids.size() > 1;
    std::vector<Question> questions{{{Stage::weights}, selected(nullptr, "1", "0")},
                                    {{Stage::q, Stage::mlp_out}, {}},
                                    {{Stage::resid_post}, selected(nullptr, nullptr, "1")},
                                    {{}, {}}}; // nothing is computed of it
    if (batched) {
      questions.push_back({{Stage::weights}, selected("1", "0", nullptr)});
      questions.push_back({{Stage::row_sum, Stage::output}, selected("0,2", nullptr, nullptr)});
    }
    for (const Question& question : questions) {
      Opened opened(name, ids);
      for (std::size_t n = 0; n < 4; ++n) {
        const Layer layer = opened.model->load(std::to_string(n)).layer;
        INFO(name << ", layer " << n);
        CHECK(same_bits(layer.X, expected[n]));
        if (question.stages.empty()) continue;
        const Trace kept =
            trace(layer, question.stages, question.selection, 1, opened.model->compute());
        const Trace alone = trace(layer, question.stages, question.selection, 1);
        for (const Stage stage : question.stages)
          CHECK(same_bits(kept.value(stage), alone.value(stage)));
      }
      CHECK(opened.made() == 4);
      CHECK(opened.computed() == (question.stages.empty() ? 3 : 4));
    }
  }
}

TEST_CASE("model: a layer that is computed item by item is computed once") {
  const std::vector<Tensor> expected = streams_of("bard-llama", several);
  Opened opened("bard-llama", several);
  for (std::size_t n = 0; n < 4; ++n) {
    const Layer layer = opened.model->load(std::to_string(n)).layer;
    CHECK(same_bits(layer.X, expected[n]));
    for (const char* item : {"2", "0", "1"})
      trace(layer, {Stage::weights}, selected(item, nullptr, nullptr), 1, opened.model->compute());
  }
  CHECK(opened.made() == 4);
  CHECK(opened.computed() == 4);
}

TEST_CASE("model: an edited copy of a layer hands nothing on") {
  const std::vector<Tensor> expected = streams_of("bard-gpt2", one);
  Opened opened("bard-gpt2", one);
  for (std::size_t n = 0; n < 4; ++n) {
    const Layer layer = opened.model->load(std::to_string(n)).layer;
    CHECK(same_bits(layer.X, expected[n]));
    Layer edited = layer;
    edited.b_o = Tensor();
    trace(edited, {Stage::resid_post}, {}, 1);
    edited = layer;
    edited.settings.causal = !edited.settings.causal;
    trace(edited, {Stage::weights}, {}, 1);
  }
  CHECK(opened.computed() == 3); // the edited ones do not count
}

TEST_CASE("model: layers are there in any order") {
  const std::vector<Tensor> expected = streams_of("bard-llama", one);
  Opened opened("bard-llama", one);
  for (const std::size_t n : {3u, 1u, 2u, 0u, 3u})
    CHECK(same_bits(opened.model->load(std::to_string(n)).layer.X, expected[n]));
}

TEST_CASE("model: a batch's items have the streams that they have alone, and zeros behind") {
  const std::vector<Tensor> together = streams_of("bard-llama", several);
  for (std::size_t item = 0; item < several.size(); ++item) {
    const std::vector<Tensor> alone = streams_of("bard-llama", {several[item]});
    for (std::size_t n = 0; n < together.size(); ++n) {
      const Tensor mine = together[n].at(item), its = alone[n].at(0);
      INFO("text " << item << ", layer " << n);
      CHECK(std::memcmp(mine.raw(), its.raw(), its.bytes()) == 0);
      for (std::size_t i = its.bytes(); i < mine.bytes(); ++i)
        REQUIRE(mine.raw()[i] == std::byte{0});
    }
  }
}

TEST_CASE("model: texts of one model share its layers") {
  Opened opened("bard-gpt2", {"1,2"}, "", true);
  const std::vector<std::vector<std::string>> texts{one, {"4"}, {"3,1,4", "1,5,9,2"}, {"7,7,7"}};
  const auto check = [&](const std::vector<std::string>& ids) {
    Text text;
    text.ids = ids;
    const auto& weights = opened.model->texts()->weights();
    OpenedModel model(*opened.model, std::make_shared<const Texts>(weights, text));
    const std::vector<Tensor> expected = streams_of("bard-gpt2", ids);
    bool same = true;
    for (std::size_t n = 0; n < 4; ++n) {
      const LoadedLayer loaded = model.load(std::to_string(n));
      same = same && same_bits(loaded.layer.X, expected[n]) &&
             loaded.layer.lengths.empty() == (ids.size() == 1);
      trace(loaded.layer, {Stage::weights}, {}, 1, model.compute());
    }
    return same;
  };
  for (const auto& ids : texts) CHECK(check(ids));
  CHECK(opened.made() == 4);
  CHECK(opened.computed() == 4 * texts.size());
  std::vector<std::thread> threads; // each has its own text
  std::array<bool, 4> same{};
  for (std::size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] { same[i] = check(texts[i]); });
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::array{true, true, true, true});
  CHECK(opened.made() == 4);
}

TEST_CASE("model: sizes first, then the layers: each is made once") {
  Opened opened("bard-llama", several);
  for (const char* id : {"0", "1", "2", "3"}) {
    const LoadedLayer outline = opened.model->outline(id);
    CHECK(outline.layer.dims.B == 3);
    CHECK(outline.layer.dims.T == 4);
    CHECK(outline.X_of_text);
  }
  const std::vector<Tensor> expected = streams_of("bard-llama", several);
  for (std::size_t n = 0; n < 4; ++n)
    CHECK(same_bits(opened.model->load(std::to_string(n)).layer.X, expected[n]));
  CHECK(opened.made() == 4);
}

TEST_CASE("model: predictions are made of the stream behind the last layer") {
  Opened opened("bard-gpt2", one);
  PredictRequest request;
  request.positions = {4}, request.top = 2, request.threads = 1, request.each_layer = true;
  const std::vector<Prediction> found = predict(*opened.model, request).list;
  REQUIRE(found.size() == 4);
  for (std::size_t n = 0; n < 4; ++n) CHECK(found[n].layer == n);
  CHECK(opened.made() == 4);
  CHECK(opened.computed() == 4);
}

TEST_CASE("model: what no text can be") {
  CHECK_THROWS_WITH(Opened("bard-gpt2", {"99999"}).model->load("0"), Contains("99999"));
  CHECK_THROWS_WITH(Opened("bard-gpt2", {""}), Contains("ids"));
  CHECK_THROWS_WITH(Opened("induction", {"1,2"}, "all"), Contains("{\"X\", tensor}"));
  CHECK_THROWS_WITH(Opened("bard-gpt2", one).model->load("7"), Contains("no such layer"));
}
