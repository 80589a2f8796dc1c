#pragma once
// Fused projections: queries', keys' and values' columns in one matrix.

#include <mha/layer/settings.hpp>
#include <mha/tensor/tensor.hpp>

namespace mha {

struct SplitTensors {
  Tensor q, k, v;
};

/// Splits W_qkv (d_in, (H + 2 H_kv) · d) or b_qkv ((H + 2 H_kv) · d) along its last axis, in
/// `order`. `where` begins messages. Throws Error if the columns do not split into the heads.
SplitTensors split_fused(const Tensor& fused, QkvOrder order, std::size_t H, std::size_t H_kv,
                         const std::string& where);

} // namespace mha
