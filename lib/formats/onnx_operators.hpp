#pragma once
// Attributes and inputs of attention's operators: private to onnx_operators.cpp.

#include <mha/formats/onnx_layers.hpp>

namespace mha::io {

class OnnxOperatorInputs {
public:
  OnnxOperatorInputs(const OnnxFlow& flow, int at)
      : flow_(flow), step_(flow.steps[static_cast<std::size_t>(at)]) {
    site_.step = at;
  }

protected:
  bool because(std::string why);
  /// Whether a value is boolean.
  bool is_truth(int value, int depth = 0) const;
  /// Reads the mask or bias input at `place`.
  void take_mask(std::size_t place);
  /// Checks a length: a constant must be the length of the whole text.
  bool is_length(std::size_t place, std::int64_t length, const char* name);
  bool counts_positions(std::size_t place);
  /// Reads the logits that join each head's softmax; smooth_softmax is a logit of 0.
  bool take_sinks(std::int64_t heads);
  /// Reads a mask that is 0 for padding, or the length without padding. An input of the graph
  /// counts as without padding, and a constant must be.
  bool take_key_mask(std::size_t place, const char* name);

  const OnnxFlow& flow_;
  const OnnxStep& step_;
  OnnxAttentionSite site_;
  std::string why_; ///< the reason why it is not read
};

/// Why an operator is not read: the first attribute or input that is unsupported or unknown in
/// every version of the operator. "" if it can be read.
std::string onnx_unread_part(const OnnxFlow& flow, const OnnxStep& step);

/// Whether a step is an attention operator by its name, in any domain. Unsupported ones are
/// refused.
bool is_attention_operator(const OnnxStep& step);

} // namespace mha::io
