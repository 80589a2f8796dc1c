#pragma once
// Times of a computation.

#include <mha/layer/stage.hpp>

#include <array>

namespace mha {

/// Seconds that were spent on each stage.
using StageSeconds = std::array<double, stage_count>;

/// The seconds that the phases of a computation took, the observer's among them.
struct PhaseTimes {
  double projections = 0; ///< x, q, k, v, their norms and rotations, up to the scores
  double attention = 0;   ///< scores … weights, head_out, head_result
  double output = 0;      ///< concat W_o + b_o, residual
  double around = 0;      ///< outside attention: norms, feed-forward, residual sums; final, logits
  StageSeconds stages{};  ///< summed over all workers; the softmax's are those of weights
};

} // namespace mha
