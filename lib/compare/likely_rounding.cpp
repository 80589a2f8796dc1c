#include <mha/compare/likely_rounding.hpp>

#include <mha/compare/precision.hpp>

#include <cmath>

namespace mha {

bool may_be_rounding(const Difference& found, DType precision) {
  constexpr double least_cosine = 0.9, least_cosine_in_float = 0.999;
  constexpr float no_rounding_in_float = 0.02F;
  if (!std::isfinite(found.max_abs)) return false;
  if (is_short(precision)) return found.cosine >= least_cosine;
  return found.cosine >= least_cosine_in_float && found.nearest < no_rounding_in_float;
}

double rounding_like(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return 0.06;
  case DType::f16:
    return 0.01;
  case DType::f32:
    return 2e-5;
  default:
    return 1e-12;
  }
}

} // namespace mha
