// Computation in half precision, which rounds every tensor and every step.

#include <mha/diagnose/hypotheses/precision.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <cmath>

namespace mha {

void round_step(Layer& layer, DType to, Stage stage) {
  if (layer.has_given(stage) || !has_step(layer, stage)) return;
  if (!contains(available_stages(layer), stage)) return;
  give(layer, stage, rounded_to(value_of(layer, stage), to));
}

void round_tensors(Layer& layer, DType to) {
  for (Tensor Layer::*tensor :
       {&Layer::X, &Layer::X_k, &Layer::X_v, &Layer::W_q, &Layer::W_k, &Layer::W_v, &Layer::W_o,
        &Layer::b_q, &Layer::b_k, &Layer::b_v, &Layer::b_o, &Layer::norm_weight, &Layer::norm_bias,
        &Layer::q_norm_weight, &Layer::k_norm_weight})
    if (!(layer.*tensor).empty()) layer.*tensor = rounded_to(layer.*tensor, to);
}

bool uses_type(const Tensor& tensor, DType to) {
  // About half of ordinary numbers have their last bit set.
  constexpr std::size_t enough = 8, one_in = 8;
  const int bits = to == DType::f16 ? 10 : 7;
  std::size_t count = 0, last_bits = 0;
  bool holds = true;
  by_precision(tensor.dtype(), [&]<class T>(T) {
    for (const T number : tensor.as<T>()) {
      const double a = std::fabs(static_cast<double>(number));
      if (!(a > 0) || a >= 1e4) continue; // zeros and mask constants
      const int exponent = std::max(std::ilogb(a), to == DType::f16 ? -14 : -126);
      const double units = std::ldexp(a, bits - exponent);
      if (units != std::floor(units)) {
        holds = false;
        return;
      }
      ++count, last_bits += std::fmod(units, 2) != 0 ? 1 : 0;
    }
  });
  return holds && count >= enough && last_bits * one_in >= count;
}

Change precision_change(DType dtype) {
  Change change{dtype == DType::f16 ? "precision.f16" : "precision.bf16", StageSet::all(),
                fmt::format("computes in {}: every step is rounded", name_of(dtype)),
                "nothing is wrong except the rounding; compute in float32 to compare more closely",
                [dtype](Layer& edited) {
                  round_tensors(edited, dtype);
                  for (Stage stage : rounded_projections) round_step(edited, dtype, stage);
                }};
  change.edit_rows = [dtype](Layer& edited) {
    for (Stage stage : rounded_rows) round_step(edited, dtype, stage);
  };
  return change;
}

namespace {

/// References in half precision are recognised as such, so that no change is tried.
std::vector<Change> changes(const Subject&) {
  return {};
}

} // namespace

const Theme precision_theme{"precision", "precision.f16 precision.bf16", changes};

} // namespace mha
