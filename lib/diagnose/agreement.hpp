#pragma once
// One number for how far two values of a stage are apart, and whether that is rounding.

#include <mha/tensor/tensor.hpp>

namespace mha {

struct Agreement {
  bool agrees = false;
  /// ‖ours − theirs‖ / ‖theirs‖ (Frobenius). A number that is not finite on one side alone counts
  /// as a typical one that is wholly wrong; −∞ equals a mask constant of −1000 and less.
  double error = 0;
  /// The same without the row (of the last axis) that differs most.
  double error_elsewhere = 0;
  /// The element that differs most, by flat index, and its values.
  std::size_t worst = 0;
  double ours = 0, theirs = 0;
};

/// Of values that cannot be compared.
Agreement incomparable();

/// They agree where |ours − theirs| ≤ tolerance · (|theirs| + RMS of theirs) everywhere. Both of
/// the same dtype (f32 or f64); of different shape they do not agree.
Agreement agreement_of(const Tensor& ours, const Tensor& theirs, double tolerance);

/// How many times with − without must be added to `without` to come nearest to theirs, over the
/// finite numbers; 1 where the two are the same. An empty `without` is zeros.
double projection(const Tensor& theirs, const Tensor& with, const Tensor& without);

/// What rounding to a dtype, and computing in it where it is f32 or f64, may do to a number,
/// relative to it.
double tolerance_of(DType dtype);
/// Whether every number is one of this dtype (f16, bf16).
bool representable(const Tensor& tensor, DType dtype);

} // namespace mha
