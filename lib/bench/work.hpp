#pragma once
// Least work of a layer's stages: the operations of their products, exponentials, bytes.

#include <mha/schedule/plan.hpp>
#include <mha/schedule/times.hpp>

#include <array>

namespace mha {

/// The least that a stage needs, however it is computed.
struct Work {
  /// Floating-point operations of products, 2 m n k each. Keys that causal, window_left,
  /// window_right or kv_lengths hide from a query are not counted, even if a tile computes them,
  /// except in the product for scores that are kept.
  double operations = 0;
  double exponentials = 0; ///< one for each visible (query, key) pair
  double read_bytes = 0;   ///< weights, keys and values in the layer's dtype, each read once
};
using StageWork = std::array<Work, stage_count>;

/// The work of each stage of a plan; nothing for stages whose cost is none of these (norms,
/// rotations, masks).
StageWork work_of(const Layer& layer, const Plan& plan);

/// The phase that a stage with work belongs to.
Phase phase_of(Stage stage);

/// The operations of a plan's products, by phase.
ByPhase<double> operations_of(const StageWork& work);

} // namespace mha
