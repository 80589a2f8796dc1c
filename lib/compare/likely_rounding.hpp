#pragma once
// A glance at a difference: whether it can be rounding, before any number's variance is known.

#include <mha/compare/compare.hpp>

namespace mha {

/// Whether an error can be rounding at all. What rounding spoils still points where it did; nor
/// does it move each row that differs by 2 % of itself, some hundred thousand units, where that is
/// done in float32.
bool may_be_rounding(const Difference& found, DType precision);
/// Errors of rounding size, relative to a stage's root mean square: several units in the last
/// place.
double rounding_like(DType dtype);

} // namespace mha
