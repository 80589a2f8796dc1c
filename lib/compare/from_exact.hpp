#pragma once
// Distances of a stage from the same computation in float64: ours, and the reference's.

#include <mha/compare/compare.hpp>

namespace mha {

/// Distances from float64, each the largest |difference| of the stage's elements.
struct FromExact {
  double ours = 0, theirs = 0;
  /// What a computation in the reference's precision is expected to be off by: what ours is, in
  /// units of that precision, and at least what storing the largest number in it rounds off.
  double rounding = 0;

  /// How many times as far the reference is; infinite where it is no number and ours is one.
  double ratio() const;
  /// Whether the reference is no farther than another order of sums takes it.
  bool is_rounding() const;
};

/// `ours`: the largest |ours - float64|; `exact`: the stage in float64; `precision`: the coarsest
/// type that the reference's stage, or what it was computed from, is of.
FromExact from_exact(const Layer& layer, const ReferenceStage& theirs, double ours,
                     const Tensor& exact, DType precision);

/// The largest magnitude in a tensor: of finite numbers below 10⁴, since a mask's constant is no
/// number that the computation rounds.
double largest_number(const Tensor& tensor);

/// Half a unit in the last place of numbers near 1.
double unit_of(DType dtype);

} // namespace mha
