// What is computed from what: by the table, and where a layer changes it.

#include <mha/layer/graph.hpp>

#include <catch2/catch.hpp>

#include <functional>

using namespace mha;

namespace {

using enum Stage;

Layer plain() {
  Layer layer;
  layer.dims.T = layer.dims.S = layer.dims.S_all = 3;
  layer.dims.H = layer.dims.H_kv = 2, layer.dims.d_k = layer.dims.d_v = 4;
  layer.dims.d_model = layer.dims.d_out = 8;
  layer.X = Tensor(DType::f32, {1, 3, 8});
  return layer;
}

Tensor some() {
  return Tensor(DType::f32, {5, 4});
}

Layer in_block(BlockShape shape) {
  Layer layer = plain();
  auto block = std::make_shared<TransformerBlock>();
  block->shape = shape;
  if (shape != BlockShape::attention_only) block->mlp.in.W = block->mlp.out.W = some();
  layer.block = block;
  return layer;
}

} // namespace

TEST_CASE("sets of stages are gone through in the order of the computation") {
  StageSet set{weights, q, logits};
  CHECK(std::vector<Stage>(set.begin(), set.end()) == std::vector<Stage>{q, weights, logits});
  CHECK((set & StageSet{q, k}) == StageSet{q});
  CHECK((set | StageSet{k}).count() == 4);
  CHECK(contains(~set, k));
  CHECK_FALSE(contains(~set, q));
  CHECK(set.remove(q).remove(weights).remove(logits).none());
  CHECK(set.begin() == set.end());
  CHECK(StageSet::all().count() == step_count);
}

TEST_CASE("graph: a step that the layer does not have stands for its inputs") {
  const Layer layer = plain();
  CHECK(inputs_of(layer, scores) == std::vector<Stage>{q, k});
  CHECK(inputs_of(layer, masked) == std::vector<Stage>{scaled});
  CHECK(inputs_of(layer, head_out) == std::vector<Stage>{weights, v});
}

TEST_CASE("graph: where a layer changes what a stage is computed from") {
  const std::vector<std::tuple<const char*, std::function<Layer()>, Stage, std::vector<Stage>>>
      cases{
          {"its own keys",
           [] {
             Layer layer = plain();
             layer.X_k = layer.X;
             return layer;
           },
           k,
           {}},
          {"its own values",
           [] {
             Layer layer = plain();
             layer.X_v = layer.X;
             return layer;
           },
           v,
           {}},
          {"vectors of distances",
           [] {
             Layer layer = plain();
             layer.relative_key = some();
             return layer;
           },
           biased,
           {scaled, q}},
          {"and for keys",
           [] {
             Layer layer = plain();
             layer.relative_key = some(), layer.settings.relative_key_query = true;
             return layer;
           },
           biased,
           {scaled, q, k}},
          {"sinks",
           [] {
             Layer layer = plain();
             layer.sinks = some();
             return layer;
           },
           row_sum,
           {exp, row_max}},
          {"the naive softmax",
           [] {
             Layer layer = plain();
             layer.settings.softmax = Softmax::naive;
             return layer;
           },
           shifted,
           {masked}},
          {"and its denominator",
           [] {
             Layer layer = plain();
             layer.settings.softmax = Softmax::naive;
             return layer;
           },
           logsumexp,
           {row_sum}},
          {"and its sinks",
           [] {
             Layer layer = plain();
             layer.settings.softmax = Softmax::naive, layer.sinks = some();
             return layer;
           },
           row_sum,
           {exp}},
          {"heads that are patched",
           [] {
             Layer layer = plain();
             ResolvedEdit patch;
             patch.stage = head_result;
             layer.patches.add(patch);
             return layer;
           },
           output,
           {concat, head_result}},
          {"pre", [] { return in_block(BlockShape::pre); }, resid_post, {residual, mlp_out}},
          {"parallel", [] { return in_block(BlockShape::parallel); }, mlp_x, {resid_pre}},
          {"parallel, its end",
           [] { return in_block(BlockShape::parallel); },
           resid_post,
           {resid_pre, output, mlp_out}},
          {"post", [] { return in_block(BlockShape::post); }, resid_post, {mlp_x, mlp_out}},
          {"no feed-forward",
           [] { return in_block(BlockShape::attention_only); },
           resid_post,
           {resid_pre, output}},
      };
  for (const auto& [name, make, stage, inputs] : cases) {
    INFO(name);
    CHECK(inputs_of(make(), stage) == inputs);
  }
}

TEST_CASE("graph: what stands before a stage, and what may follow it") {
  const Layer layer = plain();
  CHECK(ancestors_of(layer, scores) == StageSet{x, q, k});
  CHECK(ancestors_of(layer, weights, {masked}) == StageSet{exp, row_sum, shifted, row_max, masked});
  CHECK(contains(possible_ancestors(scores, {}), q_rope)); // though this layer has none
  CHECK_FALSE(contains(possible_ancestors(scores, {k_all}), k));
  CHECK(contains(possible_descendants({v}), output));
  CHECK_FALSE(contains(possible_descendants({v}), weights));
  CHECK(follows(weights, exp));
  CHECK(follows(exp, exp));
  CHECK_FALSE(follows(masked, exp));
}
