#include <mha/compare/from_exact.hpp>

#include <mha/compare/compare.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// Sums in another order, and roundings that fall otherwise, are this many times as far off.
constexpr double usual_ratio = 8;

} // namespace

double largest_number(const Tensor& tensor) {
  double largest = 0;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = std::fabs(value_at(tensor, i));
    if (std::isfinite(value) && value < 1e4) largest = std::max(largest, value);
  }
  return largest;
}

double unit_of(DType dtype) {
  return std::ldexp(1, -significand_bits(dtype) - 1);
}

double FromExact::ratio() const {
  return rounding > 0 ? theirs / rounding : theirs > 0 ? HUGE_VAL : 0;
}

bool FromExact::is_rounding() const {
  return ratio() <= usual_ratio;
}

FromExact from_exact(const Layer& layer, const ReferenceStage& theirs, double ours,
                     const Tensor& exact, DType precision) {
  FromExact found;
  found.ours = ours;
  found.theirs = compare(layer, theirs.stage, exact, theirs.value, {}, theirs.stored).max_abs;
  const double coarser = std::max(1.0, unit_of(precision) / unit_of(layer.dtype));
  found.rounding = std::max(ours * coarser, unit_of(precision) * largest_number(theirs.value));
  return found;
}

} // namespace mha
