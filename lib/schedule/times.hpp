#pragma once
// Times of a computation.

#include <mha/layer/stage.hpp>

#include <array>

namespace mha {

/// Seconds that were spent on each stage.
using StageSeconds = std::array<double, stage_count>;

/// The seconds that the phases of a computation took, the observer's among them.
struct PhaseTimes {
  double projections = 0; ///< x, q, k, v, and what is done with them before they meet
  double attention = 0;   ///< scores … weights, head_out, head_result
  double output = 0;      ///< concat W_o + b_o, residual
  double around = 0; ///< of a whole model: norms, feed-forward, sums of the stream; final, logits
  StageSeconds stages{}; ///< of all workers together; those of the softmax are weights'
};

} // namespace mha
