#pragma once
// Whole models as exporters write them: nodes that are called by their modules' paths, and weights
// of products that are left anonymous.

#include "support/onnx_graph.hpp"

namespace onnx {

struct ModelForm {
  std::string name;
  Graph graph;
  std::string config; ///< of config.json
  std::int64_t vocabulary = 0;
  bool has_types = false, has_mask = false;
};

/// GPT-2, LLaMA, BERT, GPT-NeoX, Gemma 2 and 3 and OLMo 2: two layers each, random numbers.
std::vector<ModelForm> model_forms();

/// LLaMA as onnxruntime-genai's builder writes it: weights that are called by their nodes,
/// GroupQueryAttention with keys of before, SkipSimplifiedLayerNormalization. `fused`: not, the same
/// in the standard's operators.
ModelForm genai_form(bool fused);

/// A form as torch.onnx's dynamo exporter writes it: nodes are called by their operators, and
/// nn.Linear's weights, (out, in), by their own names.
ModelForm as_dynamo_exports(ModelForm form);

/// The logits of a text, (1, T, vocabulary).
std::optional<Value> logits_of(const ModelForm& form, const std::vector<int>& ids);

} // namespace onnx
