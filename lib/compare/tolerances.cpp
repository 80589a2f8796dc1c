#include <mha/compare/tolerances.hpp>

namespace mha {

Tolerance default_tolerance(DType coarser) {
  switch (coarser) {
  case DType::f64:
    return {1e-7, 1e-7};
  case DType::f16:
    return {1e-5, 1e-3};
  case DType::bf16:
    return {1e-5, 1.6e-2};
  default:
    return {1e-5, 1.3e-6};
  }
}

int significand_bits(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return 8;
  case DType::f16:
    return 11;
  case DType::f32:
    return 24;
  default:
    return 53;
  }
}

DType coarser_of(DType a, DType b) {
  return significand_bits(a) <= significand_bits(b) ? a : b;
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

Tolerance Tolerances::of(Stage stage, DType coarser) const {
  const Tolerance usual = default_tolerance(coarser);
  const auto chosen = [&](const std::map<Stage, double>& by_stage, std::optional<double> all,
                          double otherwise) {
    const auto at = by_stage.find(stage);
    return at != by_stage.end() ? at->second : all.value_or(otherwise);
  };
  return {chosen(stage_absolute, absolute, usual.absolute),
          chosen(stage_relative, relative, usual.relative)};
}

bool Tolerances::asked_for(Stage stage) const {
  return absolute || relative || stage_absolute.contains(stage) || stage_relative.contains(stage);
}

} // namespace mha
