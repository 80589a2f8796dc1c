// What goes wrong is an Error that states what there is, in the words of a program.

#include "unit/api/layers.hpp"

#include <mha/observe/compute.hpp>
#include <mha/observe/trace.hpp>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

TEST_CASE("api: stages that are not there", "[api]") {
  const Layer small = small_layer();
  const Cache few = run(small, {Stage::q, Stage::output});
  CHECK(error_of([&] { few.tensor("weights"); }) ==
        "weights was not asked for; the cache has q, output");
  CHECK_THAT(error_of([&] { few.tensor("q_rope"); }),
             Contains("this layer has no q_rope; it has x, q, k, v, scores"));
  CHECK_THAT(error_of([&] { few.tensor("weihgts"); }), Contains("did you mean 'weights'"));
  CHECK_THAT(error_of([&] { few.tensor("attn_weights"); }), Contains("scaled"));
  CHECK_THAT(error_of([&] { run(small, {Stage::q_rope}); }), Contains("q_rope"));
  CHECK_THAT(error_of([&] { run(small, std::vector<Stage>{}); }), Contains("no stage"));
  CHECK_THAT(error_of([&] { stream(small, Stage::q_rope, [](Place, const Tensor&) {}); }),
             Contains("q_rope"));
  const Trace kept = trace(small, {Stage::q});
  CHECK(error_of([&] { kept.value(Stage::k); }) == "k was not asked for; kept are q");
}

TEST_CASE("api: tensors that do not fit are named by their key", "[api]") {
  const auto with = [](const std::string& name, const Tensor& value) {
    Tensors tensors = small_tensors();
    std::erase_if(tensors, [&](const auto& entry) { return entry.first == name; });
    tensors.emplace_back(name, value);
    return error_of([&] { layer(tensors, {.num_heads = 2}); });
  };
  CHECK_THAT(with("W_q", numbers({5, 6}, 1)), Catch::StartsWith("W_q is (5, 6)"));
  CHECK_THAT(with("b_q", numbers({7}, 1)), Catch::StartsWith("b_q is (7,)"));
  CHECK_THAT(with("mask", numbers({3, 3}, 1)), Catch::StartsWith("mask is (3, 3)"));
  CHECK_THAT(with("W_Q", numbers({4, 6}, 1)), Contains("W_Q"));
  CHECK(
      with("W_x", numbers({4, 6}, 1)) == // as tests/python/test_mha.py has it
      "W_x: 'W_x' is neither a tensor of a layer nor a stage; did you mean 'W_q'?; docs/formats.md "
      "lists them all");
  CHECK_THAT(with("k_bias", numbers({6}, 1)), Contains("b_k"));
  CHECK_THAT(with("Wq", numbers({4, 6}, 1)), Contains("W_q and Wq are both W_q"));
  CHECK_THAT(with("b_o", Tensor()), Contains("b_o: the tensor is empty"));
  CHECK(error_of([] {
          tensor(std::vector<float>(7), {2, 4});
        }) == "7 values do not fill the shape (2, 4)");
  // No options of the command line.
  CHECK(error_of([] { layer(small_tensors(), {.num_heads = 4}); }) ==
        "W_q is (4, 6): 6 columns do not split into 4 heads; give num_heads or fix W_q");
  const std::string unknown = error_of([] { layer(small_tensors()); });
  CHECK_THAT(unknown, Contains("give num_heads") && !Contains("--"));

  const Layer small = small_layer();
  CHECK(error_of([&] {
          small.with("weights", numbers({2, 5, 4}, 1));
        }) == "weights is (2, 5, 4): (2, 5, 5) expected, as the layer has it");
  CHECK(error_of([&] {
          small.with("X", numbers({4, 5}, 1));
        }) == "X is (4, 5): (5, 4) expected, as the layer has it");
  CHECK_THAT(error_of([&] { small.with("q_rope", numbers({2, 5, 3}, 1)); }), Contains("q_rope"));
  CHECK_THAT(error_of([&] {
               small.with("X_k", numbers({5, 4}, 1));
             }),
             Contains("made without X_k"));
  CHECK_THAT(error_of([&] {
               small.with("mask", numbers({3, 3}, 1));
             }),
             Catch::StartsWith("mask is (3, 3)"));
  CHECK_THAT(error_of([&] {
               small.with("wieghts", numbers({2, 5, 5}, 1));
             }),
             Contains("did you mean 'weights'"));
}

TEST_CASE("api: files and layers that are not there", "[api]") {
  CHECK(error_of([] { load("nowhere.npz"); }) == "nowhere.npz: no such file");
  const std::string folder = data("induction");
  CHECK(error_of([&] { load(folder); }) == folder + " holds 2 layers: 0, 1; choose one");
  CHECK(error_of([&] { load(folder, "7"); }) ==
        "layer 7: there is no layer 7; the layers are 0, 1");
  CHECK_THAT(error_of([&] { load(folder, 1, "nowhere.npz:layers.1"); }),
             Contains("nowhere.npz: no such file"));
  CHECK_THAT(error_of([&] { run(load(folder, 1), {Stage::q}); }), !Contains("--") && Contains("X"));
  const std::string wrong = error_of([&] { load(folder, 1, {{"X", numbers({5, 3}, 1)}}); });
  CHECK_THAT(wrong, Contains("X has 3 columns") && !Contains("--"));
  CHECK_THAT(error_of([&] { Model opened(data("quickstart.json")); }), !Contains("--"));
}

TEST_CASE("api: a plan or an observer of another layer", "[api]") {
  const Layer small = small_layer(), large = large_layer();
  const StageSet weights{Stage::weights};
  Trace kept(small, {Stage::weights});
  CHECK_THAT(error_of([&] { compute(large, make_plan(small, weights), kept); }),
             Contains("another layer"));
  CHECK_THAT(error_of([&] { compute(large, make_plan(large, weights), kept); }),
             Contains("another layer"));
  // With the same sizes, but other steps.
  Tensors tensors = small_tensors();
  tensors.emplace_back("bias", numbers({5, 5}, 7));
  const Layer biased = layer(tensors, {.num_heads = 2, .causal = true});
  CHECK_THAT(error_of([&] { compute(biased, make_plan(small, weights), kept); }),
             Contains("another layer"));
  CHECK_THAT(error_of([&] { compute(small, make_plan(biased, weights), kept); }),
             Contains("another layer"));
}
