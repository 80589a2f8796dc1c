#include "support/compare.hpp"
#include "support/places.hpp"
#include "support/run.hpp"
#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/patcher.hpp>
#include <mha/model/predict.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>

// Patches of whole models: from a stage of any layer to the logits.

using namespace mha;

namespace {

const std::vector<std::string> models{"bard-gpt2", "bard-llama", "bard-bert"};

/// A model opened with a text and patches.
struct Opened {
  std::shared_ptr<Patcher> patcher = std::make_shared<Patcher>();
  std::unique_ptr<OpenedModel> model;

  Opened(const std::string& model, const std::vector<std::string>& ids,
         const std::vector<std::string>& patches = {}, const std::string& text_file = "") {
    RunRequest request;
    request.sources = {test::source_folder() + "/data/" + model};
    request.text.ids = ids;
    if (!text_file.empty()) request.text.files = {text_file};
    request.shows_ends = true;
    for (const std::string& patch : patches) patcher->add(patch);
    request.patches = patcher;
    this->model = std::make_unique<OpenedModel>(request);
  }
  Tensor logits() {
    const LoadedLayer ends = model->load("");
    return trace(ends.layer, {Stage::logits}).value(Stage::logits);
  }
};

Tensor logits_of(const std::string& model, const std::vector<std::string>& ids,
                 const std::vector<std::string>& patches) {
  return Opened(model, ids, patches).logits();
}

const std::vector<std::string> text{"5,17,200,31,8,90,44"};

} // namespace

TEST_CASE("patches: what two other runs differ by, some times over, is the numbers it is made of") {
  const std::vector<std::string> several{"5,17,200,31", "8,90"};
  for (const std::string& model : models)
    for (const char* stage : {"resid_post", "head_out", "k"}) {
      INFO(model << " " << stage);
      const auto of = [&](const std::string& ids) {
        const Layer layer = Opened(model, {ids}).model->load("1").layer;
        return convert(whole_stage(layer, *find_stage(stage)), DType::f64);
      };
      const Tensor a = of("7,3,12"), b = of("44,9");
      const bool with_heads = a.rank() == 4;
      const std::size_t H = with_heads ? a.shape()[1] : 1, width = a.shape().back();
      nlohmann::json value; // H × 1 × width, or 1 × width
      for (std::size_t h = 0; h < H; ++h) {
        nlohmann::json row;
        for (std::size_t i = 0; i < width; ++i)
          row.push_back(2.5 * (a.as<double>()[(h * 3 + 2) * width + i] -
                               b.as<double>()[(h * 2 + 0) * width + i]));
        value.push_back(with_heads ? nlohmann::json::array({row}) : row);
      }
      const std::string place = fmt::format("layers.1.{}", stage);
      for (const char* axes : {"", "[*,-1]", "[*,[0,1]]"}) {
        INFO(axes);
        const test::Folder folder;
        const std::string file = folder.write("value.json", nlohmann::json{{"v", value}}.dump());
        const auto with = [&](const std::string& text) {
          return logits_of(model, several, {place + axes + text});
        };
        const Tensor found = with(" += 2.5 * from ids 7,3,12[-1] - ids 44,9[0]");
        CHECK(compare_bits(found, with(" += " + file)) == "");
        CHECK(compare_bits(found, with(" -= -1 * " + file)) == "");
        CHECK(compare_bits(found, with(" += 2.5 * from ids 7,3,12[2] - from ids 44,9[-2]")) == "");
        CHECK(compare_bits(found, with(" += 2 * from ids 7,3,12[-1] - ids 44,9[0]")) != "");
      }
    }
  for (const auto& [value, expected] :
       {std::pair("from ids 7,3,12 - ids 44,9", "has 3 tokens at the place, this run 7"),
        {"from ids 7,3,12[5]", "there are 3 tokens"},
        {"from ids 7,3,12[1", "] expected at the end"},
        {"3 *", "a value expected after 3 *"},
        {"3 * nothing", "is not a value"},
        {"from 'x' - nothing", "from 'TEXT', from ids"}})
    CHECK_THROWS_WITH(logits_of("bard-gpt2", text, {std::string("layers.1.output += ") + value}),
                      Catch::Contains(expected));
}

TEST_CASE("every stage of a model's layer: its own values change no bit, others reach the logits") {
  for (const std::string& model : models) {
    const Tensor clean = logits_of(model, text, {});
    const Layer layer = Opened(model, text).model->load("1").layer;
    const StageSet available = available_stages(layer);
    std::size_t tried = 0;
    for (const StageInfo& info : stages()) {
      if (!contains(available, info.stage) || is_of_model(info.stage)) continue;
      const std::string place = fmt::format("layers.1.{}", info.name);
      INFO(model << " " << place);
      const Tensor own = logits_of(model, text, {place + " = from ids " + text[0]});
      if (info.stage == Stage::head_result)
        CHECK(compare_bits(own, clean).find("shape") == std::string::npos);
      else
        CHECK(compare_bits(own, clean) == "");
      Opened other(model, text, {place + " += 0.25"});
      const Tensor changed = other.logits();
      // What nothing but an observer reads.
      const bool dead = info.stage == Stage::logsumexp;
      if (dead)
        CHECK_THROWS_WITH(other.patcher->require_read(), Catch::Contains("nothing that was"));
      else
        other.patcher->require_read();
      // The softmax takes no notice of what all keys of a row have in common.
      const bool shifts = info.stage >= Stage::scores && info.stage <= Stage::shifted;
      if (!shifts && !dead) CHECK(compare_bits(changed, clean) != "");
      ++tried;
    }
    CHECK(tried > 20);
  }
}

TEST_CASE("the model's own stages can be patched") {
  for (const std::string& model : models) {
    const Tensor clean = logits_of(model, text, {});
    for (const char* patch : {"embed[*,2] *= 2", "final[*,2] *= 2", "logits[*,2] *= 2",
                              "layers.0.resid_pre[*,2] *= 2"}) {
      if (model == "bard-bert" && std::string_view(patch).starts_with("final")) continue;
      INFO(model << " " << patch);
      CHECK(compare_bits(logits_of(model, text, {patch}), clean) != "");
    }
    CHECK(compare_bits(logits_of(model, text, {"embed[*,2] *= 2"}),
                       logits_of(model, text, {"layers.0.resid_pre[*,2] *= 2"})) == "");
  }
}

TEST_CASE("taking out heads costs what PyTorch says") {
  // data/induction-model/expected/effects.json: each head's result zero, in a hook.
  std::ifstream file(test::source_folder() + "/data/induction-model/expected/effects.json");
  const nlohmann::json effects = nlohmann::json::parse(file);
  const auto loss = [](const std::vector<std::string>& patches) {
    Opened opened("induction-model", {}, patches,
                  test::source_folder() + "/data/induction-model/expected/repeat.txt");
    PredictRequest asked;
    const std::size_t T = opened.model->texts()->ids()[0].size();
    for (std::size_t t = T / 2 + 1; t + 1 < T; ++t) asked.positions.push_back(t);
    double sum = 0;
    for (const Prediction& one : predict(*opened.model, asked).list) sum += one.actual->surprise;
    return sum / static_cast<double>(asked.positions.size());
  };
  const double clean = loss({});
  CHECK(clean == Approx(effects["loss_second_half"].get<double>()).margin(1e-6));
  for (const auto& head : effects["zero_ablation"]) {
    const std::string place = fmt::format("layers.{}.head_result[{}] = zero",
                                          head["layer"].get<int>(), head["head"].get<int>());
    INFO(place);
    CHECK(loss({place}) - clean ==
          Approx(head["loss_change_second_half"].get<double>()).margin(2e-6));
  }
}

TEST_CASE("positions before a patched one keep their bits in a causal model") {
  for (const char* stage :
       {"q", "v", "weights", "head_out", "head_result", "mlp_act", "resid_post"}) {
    const Tensor clean = logits_of("bard-llama", text, {});
    const std::string place = fmt::format("layers.1.{}[*,3] *= 3", stage);
    const Tensor after = logits_of("bard-llama", text, {place});
    const std::size_t row = clean.shape()[1] * size_of(clean.dtype());
    INFO(place);
    CHECK(std::equal(clean.raw(), clean.raw() + 3 * row, after.raw()));
    CHECK(!std::equal(clean.raw() + 3 * row, clean.raw() + 4 * row, after.raw() + 3 * row));
  }
}

TEST_CASE("mean: over all positions of all texts that are no padding, whatever the place") {
  const std::vector<std::string> texts{"5,17,200", "31,8,90,44,7"};
  Opened clean("bard-gpt2", texts);
  const Tensor out = trace(clean.model->load("2").layer, {Stage::mlp_out}).value(Stage::mlp_out);
  const std::size_t d = out.shape()[2], T = out.shape()[1];
  std::vector<double> mean(d);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t t = 0; t < (b == 0 ? 3u : 5u); ++t)
      for (std::size_t i = 0; i < d; ++i) mean[i] += value_at(out, (b * T + t) * d + i) / 8;
  Opened patched("bard-gpt2", texts, {"layers.2.mlp_out[*,-1] = mean"});
  const Tensor after =
      trace(patched.model->load("2").layer, {Stage::mlp_out}).value(Stage::mlp_out);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t t = 0; t < (b == 0 ? 3u : 5u); ++t)
      for (std::size_t i = 0; i < d; ++i) {
        const bool last = t + 1 == (b == 0 ? 3u : 5u);
        const std::size_t at = (b * T + t) * d + i;
        CHECK(value_at(after, at) == Approx(last ? mean[i] : value_at(out, at)).margin(1e-6));
      }
}

TEST_CASE("patches of a stage apply in the order given, those of several stages in the model's") {
  CHECK(compare_bits(logits_of("bard-gpt2", text, {"layers.1.q = 2", "layers.1.q *= 3"}),
                     logits_of("bard-gpt2", text, {"layers.1.q = 6"})) == "");
  CHECK(compare_bits(logits_of("bard-gpt2", text, {"layers.2.v = 0", "layers.1.resid_post *= 2"}),
                     logits_of("bard-gpt2", text, {"layers.2.resid_pre *= 2", "layers.2.v = 0"})) ==
        "");
}

TEST_CASE("a patch that is of no layer, of which none is said, or that nothing reads is an error") {
  CHECK_THROWS_WITH(logits_of("bard-gpt2", text, {"q = 0"}), Catch::Contains("of which layer?"));
  CHECK_THROWS_WITH(logits_of("bard-gpt2", text, {"layers.9.q = 0"}),
                    Catch::Contains("there is no layer 9: the layers are 0 to"));
  CHECK_THROWS_WITH(logits_of("bard-gpt2", text, {"layers.1.q = from ids 1,2"}),
                    Catch::Contains("the other text has 2 tokens, this one 7"));
  Opened early("bard-gpt2", text, {"layers.3.q = 0"});
  early.model->load("1");
  CHECK_THROWS_WITH(early.patcher->require_read(), Catch::Contains("no layer that was computed"));
  Opened of_model("bard-gpt2", text, {"final[*,0] = 0"});
  of_model.model->load("1");
  CHECK_THROWS_WITH(of_model.patcher->require_read(), Catch::Contains("reads final"));
}
