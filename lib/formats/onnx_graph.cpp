#include <mha/formats/onnx_graph.hpp>

namespace mha::io {

std::optional<std::variant<OnnxLayer, OnnxRefusal>>
onnx_layer_at(const std::shared_ptr<const OnnxFlow>& flow, const OnnxProjections& projections,
              int step) {
  auto found = spelt_out_attention(*flow, projections, step);
  if (!found) found = attention_operator(*flow, step);
  if (!found) return std::nullopt;
  if (auto* refusal = std::get_if<OnnxRefusal>(&*found)) return std::move(*refusal);
  return onnx_layer(flow, projections, std::get<OnnxAttentionSite>(*found));
}

} // namespace mha::io
