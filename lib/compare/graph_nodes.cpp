#include <mha/compare/capture_names.hpp>

#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

namespace {

using Stages = std::vector<Stage>;

void clear(Capture& capture, const char* why = "a node within its module") {
  capture.stages.clear(), capture.side_by_side.clear();
  capture.why = why;
}

bool has(const Stages& stages, Stage stage) {
  return is_one_of(stage, stages);
}

/// Whether a module multiplies by a weight.
bool is_linear(const Capture& capture) {
  using enum Stage;
  if (!capture.side_by_side.empty()) return true;
  static const StageSet products{q, k, v, output, mlp_pre, mlp_up, mlp_out, logits};
  return !capture.stages.empty() && products.contains(capture.stages[0]);
}

bool is_norm_word(std::string_view word) {
  return word.find("orm") != std::string_view::npos || word.find("ln") != std::string_view::npos;
}

/// Whether a row is the module of attention, or the part of it between the projections.
bool is_attention(const CaptureMeaning* row) {
  return row && (has(row->output, Stage::weights) || row->output == Stages{Stage::concat}) &&
         row->input != Stages{Stage::weights};
}

void take_node_of_attention(const GraphNode& node, const std::vector<std::string>& words,
                            const Surroundings& model, Capture& capture) {
  using enum Stage;
  struct Row {
    std::string_view nodes;
    Stages stages;
  };
  static const Row rows[]{
      {"Softmax", {weights}},
      {"MatMul", {scores, scaled}}, // exporters scale queries and keys, or the product
      {"MatMul_1", {head_out}},
      {"Add", {q_rope}},
      {"Add_1", {k_rope}},
      {"GroupQueryAttention MultiHeadAttention Attention PagedAttention", {concat}},
  };
  const bool sums = model.block && model.block->shape == BlockShape::post && !words.empty() &&
                    words.back() == "output"; // BERT's attention.output adds the layer's input
  if (sums && node.name == "Add") {
    capture.stages = {residual};
    return;
  }
  const auto row = std::ranges::find_if(
      rows, [&](const Row& one) { return !sums && has_word(one.nodes, node.name); });
  if (row == std::end(rows)) return clear(capture);
  capture.stages = row->stages, capture.why.clear();
}

/// The node whose result is the activation; "" where it depends on the exporter.
std::string_view activation_node(const Surroundings& model) {
  if (!model.block) return "";
  switch (model.block->mlp.activation) {
  case Activation::relu:
    return "Relu";
  case Activation::silu:
    return "Mul";
  case Activation::gelu:
    return "Mul_1";
  default:
    return "";
  }
}

} // namespace

bool is_norm(const CaptureMeaning& row) {
  using enum Stage;
  static const StageSet normed{x, mlp_x, final, attn_add, mlp_add, resid_post};
  static const StageSet entering{resid_pre, residual, resid_post, output, mlp_out};
  if (row.output.size() != 1 || !normed.contains(row.output[0])) return false;
  return row.input.empty() ? row.output[0] == resid_post : entering.contains(row.input[0]);
}

void take_node_of_layer(const GraphNode& node, bool named, const Surroundings& model,
                        Capture& capture) {
  const BlockShape shape = model.block ? model.block->shape : BlockShape::pre;
  const bool post = shape == BlockShape::post;
  if (node.name == "Add" && shape != BlockShape::parallel && !named)
    capture.stages = {Stage::residual};
  else if (node.name == "Add_1" && !post)
    capture.stages = {Stage::resid_post};
  else
    clear(capture);
}

void take_node_of_module(const GraphNode& node, const CaptureMeaning* row,
                         const std::vector<std::string>& words, const Surroundings& model,
                         Capture& capture) {
  using enum Stage;
  capture.of_node = true;
  const std::string_view name = node.name;
  constexpr std::string_view norms =
      "LayerNormalization SimplifiedLayerNormalization RMSNormalization SkipLayerNormalization "
      "SkipSimplifiedLayerNormalization LayerNorm SkipLayerNorm SimplifiedLayerNorm Mul_1 Add_1";
  constexpr std::string_view sums = "Add Gemm FusedGemm Reshape_1 Reshape_2 Reshape_3";
  const bool qk_norm = capture.stages == Stages{q_norm} || capture.stages == Stages{k_norm};
  if (node.result > 0) return clear(capture);
  if (is_attention(row)) return take_node_of_attention(node, words, model, capture);
  if (row && row->input == Stages{mlp_pre}) { // an activation
    if (name != activation_node(model) && !has_word("Gelu FastGelu QuickGelu Relu", name))
      clear(capture);
    return;
  }
  if (row && row->output == Stages{mlp_out} && row->input == Stages{mlp_x}) {
    if (name != "Mul" || !model.block || !model.block->mlp.gated()) return clear(capture);
    capture.stages = {mlp_act};
    return;
  }
  const bool rotated = capture.stages == Stages{q_rope} || capture.stages == Stages{k_rope};
  const std::string_view alone = (row && is_norm(*row)) || qk_norm ? norms
                                 : rotated                         ? "RotaryEmbedding"
                                 : capture.stages == Stages{embed}
                                     ? (is_norm_word(words.back()) ? norms : "Gather")
                                     : "";
  if (!alone.empty()) {
    if (!has_word(alone, name)) clear(capture);
    return;
  }
  if (!capture.layer && (capture.stages == Stages{final} || capture.of_last)) { // the whole model
    if (model.bare_embedding || !has_word("Add Mul", name)) return clear(capture);
    capture.stages = {embed}, capture.of_last = false;
    return;
  }
  if (!is_linear(capture)) return clear(capture);
  capture.product = name.starts_with("MatMul") && name.find('_') == std::string_view::npos;
  if (!capture.product && !has_word(sums, name)) clear(capture);
}

} // namespace mha
