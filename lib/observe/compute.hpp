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

/// Computes what the plan says, of which some stages are derived: those in float64, of the layer's
/// own stages, handed out whole; zeros in the padding.
///
/// weights_mean (T × S): mean over heads of α.
/// value_norms (H × T × S): ‖α_ts v_s W_o[h]‖, v with its bias (Kobayashi et al. 2020).
/// value_norms_sum (T × S): ‖Σ_h α_ts v_s W_o[h]‖: the norm of the sum, not the sum of norms.
/// rollout (T × T): R_l = rownorm(mean_h α_l + I) R_{l−1}, R_{−1} = I (Abnar & Zuidema 2020); the
/// layer has R_{l−1} as rollout_before.
/// received (H × S): mean over the rows that attend of α_ts: what each key gets.
/// divergence (H × H): mean over the rows that attend of the Jensen–Shannon divergence of two
/// heads' rows, base 2, each row divided by its sum (Clark et al. 2019).
///
/// Throws Error where the weights of all heads do not fit into memory.
PhaseTimes compute_derived(Layer layer, const Plan& plan, Observer& observer, std::size_t threads);

} // namespace mha
