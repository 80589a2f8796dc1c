#pragma once
// The forward pass: a layer is computed in blocks, and each wanted stage is handed to an observer.

#include <mha/layer/layer.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/plan.hpp>

namespace mha {

/// The seconds that the parts of a computation took, the observer's among them.
struct PhaseTimes {
  double projections = 0; ///< x, q, k, v, and what is done with them before they meet
  double attention = 0;   ///< scores … weights, head_out, head_result
  double output = 0;      ///< concat W_o + b_o, residual
};

/// Computes what the plan says and shows `observer` every piece of the wanted stages. `threads` 0 =
/// threads_for(layer). A stage's bits depend on the layer alone: not on the plan, nor the threads.
/// A tensor of the layer is let go once nothing more is made of it: whoever moves the layer in has
/// its memory back then; an observer that looks into that layer (Comparison, Pool) must not be
/// used.
PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads = 0);

} // namespace mha
