#pragma once
// Masks, lengths, positions and sinks among an operator's inputs: private to onnx_operators.cpp.

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

} // namespace mha::io
