#pragma once
// A layer is computed, and observers are shown what it computes.

#include <mha/schedule/observer.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/schedule/times.hpp>

#include <functional>

namespace mha {

/// Computes what the plan says and shows `observer` every block of the wanted stages. `threads` 0 =
/// threads_for(layer). A stage's bits depend on the layer alone: not on the plan, nor the threads.
/// A tensor of the layer is let go once nothing more is made of it: of a layer that is moved in,
/// memory returns then; an observer that looks into that layer (Comparison, Pool) must not be
/// used.
PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads = 0);

/// What computes a plan of a layer: `compute`, or that of a run, which makes more beside it.
using ComputeLayer = std::function<PhaseTimes(Layer layer, const Plan& plan, Observer& observer,
                                              std::size_t threads)>;

} // namespace mha
