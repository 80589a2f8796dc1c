// Trials against a reference in half precision: what rounding every step makes of the target.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/some_queries.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/layer/graph.hpp>

#include <cmath>

namespace mha {

namespace {

/// A reference that rounds other steps than ours, or more often, is as far as this.
constexpr double most_noise = 3;
/// The one element that differs most.
constexpr double most_noise_of_one = 20;

/// Half a unit in the last place, relative to a number at worst.
double half_unit(DType half) {
  return half == DType::f16 ? 0x1p-11 : 0x1p-8;
}

double as_short(double a, DType to) {
  const auto single = static_cast<float>(a);
  return static_cast<double>(to == DType::f16 ? from_half(to_half(single))
                                              : from_bfloat16(to_bfloat16(single)));
}

/// Numbers that were rounded come from anywhere in their last unit.
Tensor unrounded(const Tensor& tensor, DType half, std::uint32_t& bits) {
  return each_number(tensor, [&](double a) {
    bits = bits * 1664525U + 1013904223U;
    const double u = static_cast<double>(bits >> 8) * 0x1p-24 - 0.5;
    return a * (1 + 1.4 * u * half_unit(half));
  });
}

/// Cosines and sines are rounded, too, where the rotation is the layer's own.
void rotate_in_half(Layer& layer, DType half) {
  if (layer.settings.rope == Rope::none || layer.dims.d_k < 2) return;
  Turn turn = turn_of(layer);
  turn.round_cosine = [half](double a) { return as_short(a, half); };
  turn_with(layer, turn, !layer.has_given(Stage::q_rope), !layer.has_given(Stage::k_rope));
}

} // namespace

bool is_short(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

double storing_error(std::optional<DType> half) {
  return half ? 0.6 * half_unit(*half) : 0;
}

/// The layer with every step up to the target rounded, as the changes leave it.
Layer Trials::in_half(const Changes& changes) const {
  const DType half = *target_.half;
  const Changes ordered = in_order(changes);
  Layer layer = is_of_end() ? ends_of(layer_, part_.telling(ordered)) : layer_;
  set_apart(layer);
  std::uint32_t bits = 1;
  for (const StageInfo& info : stages())
    if (Tensor& given = layer.given[index_of(info.stage)];
        contains(inputs_, info.stage) && !given.empty())
      given = unrounded(given, half, bits);
  if (layer.ends && !layer.ends->stream.empty()) {
    auto ends = std::make_shared<ModelEnds>(*layer.ends);
    ends->stream = unrounded(ends->stream, half, bits);
    layer.ends = std::move(ends);
  }
  round_tensors(layer, half);
  std::size_t done = 0;
  const bool to_scores = follows(target_.stage, Stage::scores);
  const auto round_now = [&](Stage step) { // what a change gives is a step's result, too
    Tensor& given = layer.given[index_of(step)];
    if (layer.has_given(step) && !contains(inputs_, step)) given = rounded_to(given, half);
    round_step(layer, half, step);
  };
  for (Stage step : rounded_projections) {
    for (; done < ordered.size() && stage_of(*ordered[done]) <= step; ++done)
      ordered[done]->edit(layer);
    if (!contains(cone_, step)) continue;
    if (step == Stage::q_rope || step == Stage::k_rope) rotate_in_half(layer, half);
    round_now(step);
  }
  for (; done < ordered.size(); ++done) ordered[done]->edit(layer);
  if (!rows_.empty()) layer = some_queries(layer, rows_, target_.stage);
  const Changes by_rows = row_edits_of(ordered);
  auto rows_of_changes = [&, next = std::size_t{0}](Stage until, bool all) mutable {
    for (; next < by_rows.size(); ++next) {
      const Change& change = *by_rows[next];
      if (!all && (change.undo || stage_of(change) > until)) break;
      if (!change.undo || rows_.empty()) change.edit_rows(layer);
    }
  };
  for (Stage step : rounded_rows) {
    rows_of_changes(step, false);
    if (contains(cone_, step) && to_scores) round_now(step);
  }
  rows_of_changes(Stage::residual, true);
  return layer;
}

Agreement Trials::half_noise(const Changes& changes) const {
  return agreement_of(value_of(in_half(changes), target_.stage), screened(changes), 0);
}

bool Trials::is_half_noise(const Agreement& difference, const Changes& changes) const {
  if (!std::isfinite(difference.error)) return false;
  try {
    const Agreement noise = half_noise(changes);
    const double one = std::fabs(difference.ours - difference.theirs),
                 noise_of_one = std::fabs(noise.ours - noise.theirs);
    return difference.error <= most_noise * noise.error + storing_error(target_.half) &&
           (!std::isfinite(noise_of_one) || one <= most_noise_of_one * noise_of_one ||
            difference.agrees);
  } catch (const Error&) { // a change that this layer does not allow
    return false;
  }
}

} // namespace mha
