// A model that is made once and run many times: streams as values, patches on them, batches, and
// what is kept of the weights.

#include "support/compare.hpp"
#include "support/places.hpp"

#include <mha/layer/graph.hpp>
#include <mha/layer/patch.hpp>
#include <mha/load/load.hpp>
#include <mha/model/run.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/weight.hpp>
#include <mha/system/watch.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

using namespace mha;
using Catch::Matchers::Contains;

namespace {

const std::vector<std::string> models{"bard-gpt2", "bard-llama", "bard-bert"};
const std::vector<std::string> one{"1,5,9,2,7"}, several{"3,1,4", "1,5,9,2", "6"};

/// A model, opened for texts that come later.
struct Kept {
  std::optional<Sources> sources;
  std::shared_ptr<const Weights> weights;

  explicit Kept(const std::string& name, std::optional<std::size_t> memory = {}) {
    Request request;
    request.for_texts = true;
    request.sources = {test::source_folder() + "/data/" + name};
    request.keeps_layers = true;
    sources.emplace(std::move(request));
    weights = std::make_shared<const Weights>(*sources, memory);
  }
  TextLayers of(const std::vector<std::string>& ids, std::vector<TensorEdit> edits = {}) const {
    Text text;
    text.ids = ids;
    return {*sources, std::make_shared<const Texts>(weights, text), std::move(edits)};
  }
  const KeptWeights& kept_weights() const { return *weights->kept(); }
};

Tensor logits_of(const TextLayers& layers, const Tensor& stream, std::size_t threads = 1) {
  return trace(layers.ends(stream), {Stage::logits}, {}, threads).value(Stage::logits);
}

/// The stream after the last layer.
Tensor last_stream(const TextLayers& layers, const Advance& how = {}) {
  return advance(layers, layers.embedded(), layers.count(), how).x;
}

/// Adds to every element of a stage of one layer.
Advance adding(std::size_t layer, Stage stage, double amount) {
  Advance how;
  how.patch = [=](Layer& patched, std::size_t n) {
    if (n != layer) return;
    ResolvedEdit patch;
    patch.stage = stage, patch.op = PatchOp::add;
    patch.value = convert(Tensor::of<double>({1}, std::span(&amount, 1)), patched.dtype);
    patch.strides = {0, 0, 0, 0};
    patch.text = "test";
    patched.patches.add(std::move(patch));
  };
  return how;
}

} // namespace

TEST_CASE("run: a stream that was kept is where the next run begins, to the same bits", "[model]") {
  for (const std::string& name : models) {
    const Kept model(name);
    const TextLayers layers = model.of(several);
    std::vector<Residual> streams{layers.embedded()};
    Advance keeping;
    keeping.arrived = [&](const Residual& stream) { streams.push_back(stream); };
    const Tensor whole = last_stream(layers, keeping);
    REQUIRE(streams.size() == layers.count() + 1);
    const Tensor logits = logits_of(layers, whole);
    for (const Residual& stream : streams) {
      INFO(name << " from layer " << stream.layer);
      for (const std::size_t threads : {1u, 2u, 5u}) {
        Advance how;
        how.threads = threads;
        const Residual end = advance(layers, stream, layers.count(), how);
        CHECK(end.layer == layers.count());
        CHECK(compare_bits(end.x, whole) == "");
        CHECK(compare_bits(logits_of(layers, end.x, threads), logits) == "");
      }
    }
    // In two halves, and by another copy of the texts.
    const TextLayers again = model.of(several);
    const Residual middle = advance(again, again.embedded(), 2);
    CHECK(compare_bits(middle.x, streams[2].x) == "");
    CHECK(compare_bits(advance(layers, middle, layers.count()).x, whole) == "");
  }
}

TEST_CASE("run: each layer is made once, whatever is run, and computed once a run", "[model]") {
  const Kept model("bard-llama");
  const TextLayers layers = model.of(one);
  for (int i = 0; i < 3; ++i) last_stream(layers);
  last_stream(model.of(several));
  CHECK(layers.counts()->made == 4);
  CHECK(layers.counts()->computed == 16);
}

TEST_CASE("run: a text of a batch has the bits of its lone run, and zeros behind its end",
          "[model]") {
  for (const std::string& name : models) {
    const Kept model(name);
    const TextLayers batch = model.of(several);
    const Tensor all = last_stream(batch), logits = logits_of(batch, all);
    for (std::size_t b = 0; b < several.size(); ++b) {
      INFO(name << ", text " << b);
      const TextLayers alone = model.of({several[b]});
      const Tensor stream = last_stream(alone), its = stream.at(0), mine = all.at(b);
      CHECK(std::memcmp(its.raw(), mine.raw(), its.bytes()) == 0);
      const std::span<const float> padded = mine.as<float>();
      CHECK(std::all_of(padded.begin() + static_cast<std::ptrdiff_t>(its.count()), padded.end(),
                        [](float x) { return x == 0; }));
      const Tensor own_logits = logits_of(alone, stream);
      CHECK(std::memcmp(own_logits.raw(), logits.at(b).raw(), own_logits.bytes()) == 0);
    }
  }
}

TEST_CASE("run: patched or edited from a kept stream on is patched from the beginning", "[model]") {
  for (const std::string& name : models) {
    const Kept model(name);
    const TextLayers layers = model.of(several);
    const Tensor clean = last_stream(layers);
    for (const Stage stage : {Stage::weights, Stage::attn_add, Stage::residual, Stage::mlp_act,
                              Stage::mlp_out, Stage::resid_post}) {
      if (!has_step(layers.sized(2), stage)) continue;
      INFO(name << " " << name_of(stage));
      const Advance how = adding(2, stage, 0.25);
      const Tensor whole = last_stream(layers, how);
      CHECK(compare_bits(whole, clean) != "");
      const Residual before = advance(layers, layers.embedded(), 2);
      CHECK(compare_bits(advance(layers, before, layers.count(), how).x, whole) == "");
      const Residual behind = advance(layers, layers.embedded(), 3);
      CHECK(compare_bits(advance(layers, behind, layers.count(), how).x, clean) == "");
    }
    const Layer third = layers.sized(2);
    const Tensor zeros(third.dtype, third.W_o.shape());
    const TextLayers edited = model.of(several, {{.name = "W_o", .tensor = zeros, .layer = 2}});
    const Tensor without = last_stream(edited);
    CHECK(compare_bits(without, clean) != "");
    CHECK(compare_bits(advance(edited, advance(layers, layers.embedded(), 2), 4).x, without) == "");
  }
}

TEST_CASE("run: what is kept of the weights, from nothing to all, changes no bit", "[model]") {
  for (const std::string& name : models) {
    std::optional<Tensor> stream, logits;
    std::set<std::size_t> kept;
    for (const std::size_t budget : {std::size_t(0), std::size_t(1), std::size_t(100'000),
                                     std::size_t(1'000'000), std::size_t(1) << 40}) {
      const Kept model(name, budget);
      CHECK(model.kept_weights().budget() == budget);
      for (int run = 0; run < 3; ++run) { // read, packed, kept
        const TextLayers layers = model.of(several);
        const Tensor x = last_stream(layers), z = logits_of(layers, x);
        if (!stream) stream = x, logits = z;
        INFO(name << ", " << budget << " bytes, run " << run);
        CHECK(compare_bits(x, *stream) == "");
        CHECK(compare_bits(z, *logits) == "");
        CHECK(model.kept_weights().bytes() <= budget);
      }
      kept.insert(model.kept_weights().bytes());
    }
    CHECK(kept.count(0) == 1);
    CHECK(kept.size() >= 3); // nothing, some, all
  }
}

TEST_CASE("run: what cannot be run is said", "[model]") {
  const Kept model("bard-gpt2");
  const TextLayers layers = model.of(one);
  std::size_t computed = 0;
  const auto four_layers = [&] {
    (void)advance(layers, layers.embedded(), 4, {.arrived = [&](const Residual&) { ++computed; }});
  };
  {
    const StopCheck second([&] {
      if (computed == 2) fail("stopped");
    });
    std::size_t asked = 0;
    const StopCheck first([&] { ++asked; });
    CHECK_THROWS_WITH(four_layers(), Contains("stopped"));
    CHECK((computed == 2 && asked == 3));
    std::thread(four_layers).join(); // another thread has none
  }
  CHECK(computed == 6);
  four_layers();
  CHECK(computed == 10);
  CHECK_THROWS_WITH(model.of({"99999"}).embedded(), Contains("99999"));
  CHECK_THROWS_WITH(model.of({""}), Contains("ids"));
  CHECK_THROWS_WITH(
      model.of(one, {{.name = "W_q", .tensor = Tensor(DType::f32, {2, 2}), .layer = 1}}).sized(1),
      Contains("W_q"));
}
