#pragma once
// The output projection's input, recovered from the output alone.

#include <mha/layer/layer.hpp>

namespace mha {

/// The joined heads that give an output: (output − b_o) W_oᵀ (W_o W_oᵀ)⁻¹, where W_o has no more
/// rows than columns. output: B, T, d_out; the result: B, T, H · d_v. Empty where W_o does not
/// tell.
Tensor joined_heads_of(const Layer& layer, const Tensor& output);

} // namespace mha
