#pragma once
// Tolerances of a comparison: those of a type, and those that were asked for.

#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <map>
#include <optional>

namespace mha {

/// Elements a of ours and r of the reference agree where |a − r| ≤ absolute + relative · |r|.
struct Tolerance {
  double absolute = 0, relative = 0;

  friend bool operator==(const Tolerance&, const Tolerance&) = default;
};

/// The tolerances of torch.testing.assert_close for the coarser of two types: f64 1e-7 + 1e-7 |r|,
/// f32 1e-5 + 1.3e-6 |r|, f16 1e-5 + 1e-3 |r|, bf16 1e-5 + 1.6e-2 |r|.
Tolerance default_tolerance(DType coarser);
/// The bits of a floating type's significand, with the implicit one: 24 in float32.
int significand_bits(DType dtype);
/// The floating type with fewer significand bits.
DType coarser_of(DType a, DType b);

/// The size of rounding errors relative to a stage's root mean square: several units in the last
/// place.
double rounding_like(DType dtype);

/// Tolerances that the caller asked for; without one, default_tolerance of the coarser type.
struct Tolerances {
  std::optional<double> absolute, relative;
  std::map<Stage, double> stage_absolute, stage_relative; ///< override the others

  Tolerance of(Stage stage, DType coarser) const;
  /// Whether the caller asked for a tolerance of this stage.
  bool asked_for(Stage stage) const;
};

} // namespace mha
