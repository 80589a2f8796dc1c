#pragma once
// Computation of a layer, with observers that get the blocks of stages.

#include <mha/schedule/observer.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/schedule/times.hpp>

#include <functional>

namespace mha {

/// Computes a plan and shows `observer` every block of the wanted stages. `threads` 0 means
/// threads_for(layer). A stage's bits depend only on the layer, not on the plan or the threads.
/// Each tensor of the layer is released after its last use; if the layer is moved in, that frees
/// memory, but then observers that read the layer (Comparison, Pool) must not be used.
PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads = 0);

/// Computes a plan of a layer: `compute`, or the function of a run, which also keeps the stream.
using ComputeLayer = std::function<PhaseTimes(Layer layer, const Plan& plan, Observer& observer,
                                              std::size_t threads)>;

/// Computes a plan with derived stages, which are made of whole stages of several heads or layers:
/// in float64 and shown whole, with zeros in the padding.
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
/// Throws Error if the weights of all heads do not fit into memory.
PhaseTimes compute_derived(Layer layer, const Plan& plan, Observer& observer, std::size_t threads);

} // namespace mha
