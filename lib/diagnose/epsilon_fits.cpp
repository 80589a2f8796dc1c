// The ε of a norm, found by fitting: one that is not usual, which a reference took.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/epsilon.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace mha {

namespace {

/// The nearest number of one digit, then of two, that is as good as rounding lets a fit be.
double as_people_write(double eps, double near) {
  for (const int digits : {1, 2}) {
    const double unit = std::pow(10.0, std::floor(std::log10(eps)) + 1 - digits),
                 round = std::round(eps / unit) * unit;
    if (std::fabs(eps - round) <= near * round) return std::stod(fmt::format("{:.2g}", round));
  }
  return eps;
}

} // namespace

/// Newton's steps on ε: what a tenth more of it changes says how much of the difference is due to
/// it.
void CauseSearch::fit_epsilon(Trials& trials, Changes& candidates) {
  constexpr double tenth = 0.1, most_at_once = 30, smallest = 1e-15, largest = 10;
  constexpr int steps = 12;
  const Tensor& theirs = trials.target().theirs;
  const bool half = trials.target().half.has_value();
  const auto fit = [&](Change (*make)(const Layer&, double), double own) {
    if (!trials.concerns(make(layer_, own))) return;
    double eps = own > 0 ? own : 1e-6, last = HUGE_VAL;
    for (int i = 0; i < steps; ++i) {
      const Change here = make(layer_, eps), more = make(layer_, eps * (1 + tenth));
      const Tensor value = trials.value({&here});
      const double error = agreement_of(value, theirs, 0).error;
      if (i == 1 && !(error < last)) return; // not what it is due to
      last = error;
      const double by = tenth * projection(theirs, trials.value({&more}), value);
      if (!std::isfinite(by)) return;
      const double next =
          std::clamp(eps * std::clamp(1 + by, 1 / most_at_once, most_at_once), smallest, largest);
      if (std::fabs(next - eps) < 1e-9 * eps) break;
      eps = next;
    }
    eps = as_people_write(eps, half ? 0.1 : 0.02);
    if (std::fabs(eps - own) <= 1e-3 * own) return;
    Change change = make(layer_, eps);
    change.fitted = true;
    candidates.push_back(keep(std::move(change)));
  };
  if (layer_.settings.input_norm != InputNorm::none && !layer_.X.empty() &&
      !layer_.has_given(Stage::x))
    fit(input_norm_eps_change, layer_.settings.input_norm_eps);
  if (!layer_.q_norm_weight.empty() || !layer_.k_norm_weight.empty())
    fit(qk_norm_eps_change, layer_.settings.qk_norm_eps);
}

} // namespace mha
