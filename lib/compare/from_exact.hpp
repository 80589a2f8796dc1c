#pragma once
// Distances of a stage from the same computation in float64: ours, and the reference's.

namespace mha {

/// Distances from float64.
struct FromExact {
  double ours = 0, theirs = 0; ///< the largest |difference| of the stage's elements
  /// The reference's, number by number, in what rounding in its precision explains: at most 1.
  double ratio = 0;
  bool is_rounding = true; ///< that it explains all of them, and the stage does not differ
};

} // namespace mha
