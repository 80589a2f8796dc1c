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
  /// Whether a value is true and false.
  bool is_truth(int value, int depth = 0) const;
  /// What is added to the scores, at `place`.
  void take_mask(std::size_t place);
  /// A length: a constant has to be the whole text's.
  bool is_length(std::size_t place, std::int64_t length, const char* name);
  bool counts_positions(std::size_t place);
  /// A logit of each head that joins its softmax; smooth_softmax is one of 0.
  bool take_sinks(std::int64_t heads);
  /// Numbers of 0 for keys that are padding, or the length without it: an input of the graph counts
  /// as without padding, a constant has to be.
  bool take_key_mask(std::size_t place, const char* name);

  const OnnxFlow& flow_;
  const OnnxStep& step_;
  OnnxAttentionSite site_;
  std::string why_; ///< it is not read
};

/// Why an operator is not read: its first attribute or input that means something which is not
/// computed, or that no version of the operator has. "" where there is none.
std::string onnx_unread_part(const OnnxFlow& flow, const OnnxStep& step);

/// Whether any operator of attention is called so, by whomever: one that is not read is refused.
bool is_attention_operator(const OnnxStep& step);

} // namespace mha::io
