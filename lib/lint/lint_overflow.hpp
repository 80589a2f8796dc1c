#pragma once
// Scores and sums beyond the range of the layer's type.

#include <mha/layer/layer.hpp>

#include <string>

namespace mha {

/// Where numbers of the layer overflow on the way to its weights, in words ("overflow: 3 of scores
/// are inf (head 0, query 2), …"), or "". Nothing is computed where the sizes of the inputs rule it
/// out: |q kᵀ| ≤ d_k · |q| · |k|, and |q| ≤ d_in · |x| · |W_q| + |b_q|, by the largest numbers.
Message overflow_of(const Layer& layer, std::size_t threads = 0);

} // namespace mha
