// A layer from tensors or files, its stages, and a patched one.

#include "unit/api/layers.hpp"

#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

TEST_CASE("api: run computes every stage that a layer has, by any name", "[api]") {
  const Layer small = small_layer();
  const Cache cache = run(small);
  CHECK(cache.dtype() == DType::f32);
  CHECK(cache.stages().front() == Stage::x);
  CHECK(cache.stages().back() == Stage::output);
  CHECK(cache.has(Stage::head_result));
  CHECK_FALSE(cache.has(Stage::q_rope));
  for (Stage stage : cache.stages()) {
    INFO(name_of(stage));
    CHECK(cache.tensor(stage).shape() == small.shape_of(stage));
    // The same bits alone as with the others.
    CHECK(same_bits(run(small, {stage}).tensor(stage), cache.tensor(stage)));
    CHECK(same_bits(trace(small, {stage}).value(stage), cache.tensor(stage)));
  }
  for (const char* name : {"pattern", "alpha", "blocks.0.attn.hook_pattern", "weights"})
    CHECK(cache.tensor(name).raw() == cache.tensor(Stage::weights).raw());
  CHECK(run(small, {"pattern", "z"}).stages() == std::vector{Stage::weights, Stage::head_out});
}

TEST_CASE("api: values outlive the cache and the layer", "[api]") {
  const auto weights = [] { return run(small_layer()).tensor("weights"); }();
  for (std::size_t row = 0; row < 10; ++row) {
    double sum = 0;
    for (std::size_t key = 0; key < 5; ++key) sum += value_at(weights, row * 5 + key);
    CHECK(sum == Approx(1));
  }
  const Tensor output = trace(small_layer(), {Stage::output}).value(Stage::output);
  CHECK(output.shape() == Shape{5, 4});
}

TEST_CASE("api: tensors move in without a copy", "[api]") {
  std::vector<float> numbers(20, 1);
  const void* const at = numbers.data();
  const Tensor X = tensor(std::move(numbers), {5, 4});
  CHECK(X.raw() == at);
  Tensors tensors = small_tensors();
  tensors[0].second = X;
  CHECK(layer(tensors, {.num_heads = 2}).X.raw() == at);
}

TEST_CASE("api: a checkpoint's layer, its input beside it or in memory", "[api]") {
  const Layer from_file = load(data("induction"), "1", "hidden.npz:layers.1");
  const Tensor X = from_file.X.at(0);
  CHECK(same_bits(load(data("induction"), 1, "hidden.npz:layers.1").X, from_file.X));
  const Layer from_memory = load(data("induction"), 1, {{"X", X}});
  const Tensor expected = run(from_file).tensor("output");
  CHECK(same_bits(run(from_memory).tensor("output"), expected));
  CHECK(layers_in(data("induction")) == std::vector<std::string>{"0", "1"});
  CHECK(layers_in(data("quickstart.json")) == std::vector<std::string>{""});
  // Settings win over the file's; what is in doubt is reported.
  std::vector<Note> notes;
  const Layer open =
      load(data("induction"), 1, {{"X", X}}, {.settings = {{"causal", "false"}}, .notes = &notes});
  CHECK_FALSE(open.settings.causal);
  CHECK_FALSE(same_bits(run(open).tensor("output"), expected));
  for (const Note& note : notes) CHECK_THAT(note.text, !Contains("--"));
}

TEST_CASE("api: a layer with another tensor is as one made with it", "[api]") {
  const Layer small = small_layer();
  const Tensors tensors = small_tensors();
  const auto made_with = [&](const std::string& name, const Tensor& value) {
    Tensors other = tensors;
    std::erase_if(other, [&](const auto& entry) { return entry.first == name; });
    other.emplace_back(name, value);
    return run(layer(other, {.num_heads = 2, .causal = true}));
  };
  std::vector<std::uint8_t> blocked(25, 0);
  blocked[5] = 1;
  for (const auto& [name, value] : Tensors{{"X", numbers({5, 4}, 11)},
                                           {"W_q", numbers({4, 6}, 12)},
                                           {"W_k", numbers({2, 4, 3}, 13)},
                                           {"W_o", numbers({2, 3, 4}, 14)},
                                           {"b_q", numbers({6}, 15)},
                                           {"b_v", numbers({2, 3}, 16)},
                                           {"b_o", numbers({4}, 17)},
                                           {"mask", numbers({5, 5}, 18)},
                                           {"bias", numbers({2, 5, 5}, 19)},
                                           {"sinks", numbers({2}, 20)},
                                           {"q_norm.weight", numbers({3}, 21)},
                                           {"block_mask", tensor(blocked, {5, 5})},
                                           {"q", numbers({2, 5, 3}, 22)},
                                           {"Q", numbers({5, 6}, 23)},
                                           {"weights", numbers({2, 5, 5}, 24)},
                                           {"head_out", numbers({2, 5, 3}, 25)},
                                           {"row_max", numbers({2, 5}, 26)}}) {
    INFO(name);
    const Cache expected = made_with(name, value), found = run(small.with(name, value));
    CHECK(found.stages() == expected.stages());
    for (Stage stage : expected.stages())
      CHECK(same_bits(found.tensor(stage), expected.tensor(stage)));
  }
  // One mask replaces the other of its name, and leaves those of other names.
  const Layer masked = small.with("mask", numbers({5, 5}, 30)).with("bias", numbers({5, 5}, 31));
  const Tensor once = run(masked).tensor("masked");
  const Layer again = masked.with("mask", numbers({5, 5}, 32)).with("mask", numbers({5, 5}, 30));
  CHECK(same_bits(run(again).tensor("masked"), once));
  // The layer that it was made of is as it was.
  CHECK(same_bits(run(small).tensor("output"), run(small_layer()).tensor("output")));
}

TEST_CASE("api: tensors are exchanged where tokens are columns and items are batched", "[api]") {
  const Layer columns = layer({{"X", numbers({4, 5}, 1)},
                               {"W_q", numbers({6, 4}, 2)},
                               {"W_k", numbers({6, 4}, 3)},
                               {"W_v", numbers({6, 4}, 4)}},
                              {.num_heads = 2, .columns = true});
  const Cache cache = run(columns);
  for (Stage stage : cache.stages())
    CHECK(same_bits(run(columns.with(name_of(stage), cache.tensor(stage))).tensor("concat"),
                    cache.tensor("concat")));
  CHECK(same_bits(run(columns.with("W_q", numbers({6, 4}, 2))).tensor("q"), cache.tensor("q")));
  const Layer batched =
      layer({{"X", numbers({2, 5, 4}, 1)}, {"W_q", numbers({4, 4}, 2)}}, {.num_heads = 2});
  const Cache items = run(batched);
  for (Stage stage : items.stages())
    CHECK(same_bits(run(batched.with(name_of(stage), items.tensor(stage))).tensor("concat"),
                    items.tensor("concat")));
}

TEST_CASE("api: rows are handed out in order, one call at a time", "[api]") {
  const Layer large = large_layer();
  const Cache cache = run(large);
  for (Stage stage : cache.stages()) {
    INFO(name_of(stage));
    std::vector<float> all;
    int inside = 0;
    bool alone = true;
    stream(large, stage, [&](Place place, const Tensor& rows) {
      alone = alone && ++inside == 1;
      CHECK(rows.shape()[0] == place.count);
      all.insert(all.end(), rows.as<float>().begin(), rows.as<float>().end());
      --inside;
    });
    CHECK(alone);
    CHECK(same_bits(tensor(std::move(all), cache.tensor(stage).shape()), cache.tensor(stage)));
  }
  // An exception ends it, and no call follows.
  std::size_t calls = 0;
  CHECK_THROWS_AS(stream(large, Stage::weights,
                         [&](Place, const Tensor&) {
                           ++calls;
                           throw std::out_of_range("enough");
                         }),
                  std::out_of_range);
  CHECK(calls == 1);
}
