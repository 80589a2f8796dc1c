#pragma once
// The output projection of a site: private to onnx_layers.cpp.

#include <mha/formats/onnx_layers.hpp>

namespace mha::io {

struct OnnxOutput {
  const OnnxProjection* projection;
  std::vector<std::size_t> rows; ///< of its weight, in the layer's order of heads
  int bias = -1;
  std::vector<int> roundings; ///< steps before it that round
};

/// The projection that head_out enters as it is, for every token; nothing where there is none, and
/// `others` are the steps that it enters instead.
std::optional<OnnxOutput> onnx_output(const OnnxFlow& flow, const OnnxProjections& projections,
                                      const OnnxAttentionSite& site,
                                      const std::vector<std::int64_t>& heads,
                                      std::vector<int>& others);

} // namespace mha::io
