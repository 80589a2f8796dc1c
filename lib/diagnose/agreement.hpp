#pragma once
// The distance between two values of a stage, and whether it is rounding.

#include <mha/tensor/tensor.hpp>

namespace mha {

struct Agreement {
  bool agrees = false;
  /// ‖ours − theirs‖ / ‖theirs‖ (Frobenius). A number that is finite on one side only counts as a
  /// typical number that is entirely wrong. −∞ equals a mask constant of −1000 or less.
  double error = 0;
  /// The same error without the row (along the last axis) that differs most.
  double error_elsewhere = 0;
  /// The element that differs most, by flat index, and its values.
  std::size_t worst = 0;
  double ours = 0, theirs = 0;
};

/// The agreement of values that cannot be compared: infinite error.
Agreement incomparable();

/// The values agree if |ours − theirs| ≤ tolerance · (|theirs| + RMS of theirs) everywhere. Both
/// must be f32 or both f64. Values of different shapes do not agree.
Agreement agreement_of(const Tensor& ours, const Tensor& theirs, double tolerance);

/// The factor by which `with − without` must be multiplied so that, added to `without`, it comes
/// closest to theirs over the finite numbers. 1 if the two are equal. An empty `without` means
/// zeros.
double projection(const Tensor& theirs, const Tensor& with, const Tensor& without);

/// The relative error that rounding to a dtype may cause, for f32 and f64 including computation in
/// it.
double tolerance_of(DType dtype);
/// Whether this dtype (f16 or bf16) represents every number exactly.
bool representable(const Tensor& tensor, DType dtype);

} // namespace mha
