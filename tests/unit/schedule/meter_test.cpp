// Progress: all the work that is announced is done, whatever is computed.

#include "support/places.hpp"

#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/predict.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/watch.hpp>

#include <catch2/catch.hpp>

#include <mutex>

using namespace mha;

namespace {

/// Adds up what it hears.
class Sums : public Watcher {
public:
  Sums() { watch_computations(this); }
  ~Sums() override { watch_computations(nullptr); }
  void begin(double work) override { ++begun, announced += work; }
  void advance(double work) override {
    const std::lock_guard hold(lock_);
    done += work;
  }
  void end() override { ++ended; }

  std::size_t begun = 0, ended = 0;
  double announced = 0, done = 0;

private:
  std::mutex lock_;
};

struct OpenedText {
  std::optional<OpenedModel> model;

  explicit OpenedText(const std::string& name) {
    std::string ids = "1";
    for (int i = 2; i < 40; ++i) ids += "," + std::to_string(i);
    RunRequest request;
    request.text.ids = {ids};
    request.sources = {test::source_folder() + "/data/" + name};
    model.emplace(std::move(request));
    model->threads = 1;
  }
};

} // namespace

TEST_CASE("progress: attention, feed-forward and logits are announced, and done") {
  for (const char* name : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    OpenedText text(name);
    const Layer layer = text.model->load("3").layer;
    const Dims& d = layer.dims;
    const auto product = [&](std::size_t in, std::size_t out) {
      return 2.0 * static_cast<double>(d.T * in * out);
    };
    for (const std::vector<Stage>& stages :
         {std::vector{Stage::weights}, {Stage::output}, {Stage::mlp_pre}, {Stage::resid_post}}) {
      const Sums sums;
      trace(layer, stages, {}, 2);
      INFO(name << ", " << name_of(stages[0]));
      CHECK(sums.begun == 1);
      CHECK(sums.ended == 1);
      CHECK(sums.announced > 0);
      CHECK(sums.done == Approx(sums.announced));
      if (stages[0] == Stage::resid_post) // the most of it
        CHECK(sums.done > 2 * product(d.d_model, d.d_ff));
    }
    const Sums sums;
    PredictRequest asked;
    asked.positions = {38}, asked.threads = 1;
    predict(*text.model, asked);
    INFO(name);
    CHECK(sums.begun == 2); // the last layer, and what comes after it
    CHECK(sums.ended == 2);
    CHECK(sums.done == Approx(sums.announced).epsilon(0.2)); // rows that are split come in groups
  }
}

TEST_CASE("progress: it ends where a computation fails") {
  class Fails : public Observer {
  public:
    StageSet wants() const override {
      StageSet set;
      set.add(Stage::weights);
      return set;
    }
    void observe(const Slice&) override { fail("no room"); }
  };
  OpenedText text("bard-gpt2");
  const Layer layer = text.model->load("0").layer;
  const Sums sums;
  Fails fails;
  CHECK_THROWS_AS(compute(layer, make_plan(layer, fails.wants()), fails, 1), Error);
  CHECK(sums.begun == 1);
  CHECK(sums.ended == 1);
}
