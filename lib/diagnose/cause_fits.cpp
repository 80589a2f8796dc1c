// Numbers found by fitting: a scale, a rotary base, dropout's probability.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/rope.hpp>
#include <mha/diagnose/hypotheses/scale.hpp>
#include <mha/diagnose/hypotheses/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace mha {

namespace {

/// The place of the smallest of f(exp(u)), u in [low, high]: the best of `steps` places, then
/// golden section around it.
double minimum_of(const std::function<double(double)>& f, double low, double high, int steps) {
  double best = low, least = std::numeric_limits<double>::infinity();
  const double step = (high - low) / steps;
  for (int i = 0; i <= steps; ++i)
    if (const double u = low + i * step, error = f(std::exp(u)); error < least)
      best = u, least = error;
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = best - step, b = best + step;
  double c = b - ratio * (b - a), d = a + ratio * (b - a);
  double f_c = f(std::exp(c)), f_d = f(std::exp(d));
  for (int i = 0; i < 64 && b - a > 1e-13; ++i)
    if (f_c < f_d)
      b = d, d = c, f_d = f_c, c = b - ratio * (b - a), f_c = f(std::exp(c));
    else
      a = c, c = d, f_c = f_d, d = a + ratio * (b - a), f_d = f(std::exp(d));
  return std::exp((a + b) / 2);
}

} // namespace

void CauseSearch::add_fits(const State&, Trials& trials, Changes& candidates) {
  const auto has = [&](Stage stage) {
    Change probe;
    probe.touches = set_of({stage});
    return trials.concerns(probe);
  };
  if (trials.target().stage == Stage::weights)
    if (std::optional<Change> dropout = dropout_change(trials.value(), trials.target().theirs))
      candidates.push_back(keep(std::move(*dropout)));
  if (has(Stage::scaled)) fit_scale(trials, candidates);
  const bool rotates =
      layer_.settings.rope != Rope::none && (has(Stage::q_rope) || has(Stage::k_rope));
  if (rotates) fit_rope_base(trials, candidates);
}

void CauseSearch::fit_scale(Trials& trials, Changes& candidates) {
  const double now = layer_.scale();
  if (!(now > 0)) return;
  const auto error = [&](double scale) {
    const Change change = scale_change(layer_, "scale.constant", scale, "", "");
    return trials.screen({&change}).error;
  };
  const double scale = minimum_of(error, std::log(now / 64), std::log(now * 64), 48);
  const std::string name = name_of_scale(layer_, scale);
  Change change = scale_change(layer_, "scale.constant", scale, fmt::format("{:.9g}", scale),
                               name.empty() ? fmt::format("{:.6g}", scale)
                                            : fmt::format("{:.6g} ({})", scale, name));
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

void CauseSearch::fit_rope_base(Trials& trials, Changes& candidates) {
  const auto error = [&](double base) {
    const Change change = rope_base_change(layer_, base);
    return trials.screen({&change}).error;
  };
  const double base = minimum_of(error, std::log(10.0), std::log(1e8), 160);
  Change change = rope_base_change(layer_, base);
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

} // namespace mha
