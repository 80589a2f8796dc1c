#pragma once
// Which columns of which projection a site's heads are: private to onnx_layers.cpp.

#include <mha/formats/onnx_layers.hpp>

namespace mha::io {

/// Queries, keys or values of a site, followed back to their projection.
struct OnnxOperand {
  OnnxColumns columns;
  std::optional<OnnxNorm> norm; ///< between the projection and the rotary embedding
  std::vector<double> norm_weight, norm_bias;
  std::optional<OnnxRope> rope;
};

using OnnxSiteElements = std::function<OnnxForm(std::int64_t, std::int64_t, std::int64_t)>;

/// The operand; nothing where its elements are no columns of one projection. `heads`: which l are
/// the heads of the first batch item; found here where it is empty.
std::optional<OnnxOperand> onnx_operand(const OnnxFlow& flow, const OnnxProjections& projections,
                                        const OnnxSiteElements& elements, std::int64_t groups,
                                        std::int64_t length, std::int64_t width,
                                        std::vector<std::int64_t>& heads);

/// The rows of keys or values behind those of the input, which are constants, in their order: each
/// has heads · width numbers.
std::vector<std::vector<double>> onnx_constant_rows(const OnnxFlow& flow,
                                                    const OnnxSiteElements& elements,
                                                    const std::vector<std::int64_t>& heads,
                                                    std::int64_t length, std::int64_t width);

} // namespace mha::io
