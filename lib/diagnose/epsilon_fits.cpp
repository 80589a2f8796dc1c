// Fits an unusual ε of a norm.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace mha {

namespace {

/// The nearest number of one digit, or else of two, within the accuracy of the fit.
double as_people_write(double eps, double near) {
  for (const int digits : {1, 2}) {
    const double unit = std::pow(10.0, std::floor(std::log10(eps)) + 1 - digits),
                 round = std::round(eps / unit) * unit;
    if (std::fabs(eps - round) <= near * round) return std::stod(fmt::format("{:.2g}", round));
  }
  return eps;
}

/// An ε of a layer, and the change to another value.
struct Epsilon {
  double own = 0;
  std::function<Change(double eps)> change;
};

std::vector<Epsilon> epsilons_of(const Layer& layer) {
  std::vector<Epsilon> list;
  const auto add = [&](const NormGroup& group, const Norm& own) {
    list.push_back(
        {own.eps, [group, own](double eps) { return formed(group, other_epsilon(own, eps)); }});
  };
  const Settings& s = layer.settings;
  if (s.input_norm != InputNorm::none && !layer.X.empty() && !layer.has_given(Stage::x))
    list.push_back(
        {s.input_norm_eps, [&layer](double eps) { return input_norm_eps_change(layer, eps); }});
  if (!norms_of(layer, qk_norm_stages()).empty())
    list.push_back(
        {s.qk_norm_eps, [&layer](double eps) { return qk_norm_eps_change(layer, eps); }});
  for (const NormRow& row : norms_of(layer, own_norms_of_block()))
    add({"block_norm", row.name, {row}}, row.of(layer));
  if (const NormGroup all = all_norms(layer); layer.block && all.rows.size() > 1) {
    const Norm first = all.rows[0].of(layer);
    add(all, first);
    if (const NormGroup more = all_norms_and_heads(layer); !more.rows.empty()) add(more, first);
  }
  if (const NormGroup last = last_norm(layer); !last.rows.empty()) add(last, layer.ends->final);
  return list;
}

} // namespace

/// Newton's method on ε: the effect of increasing it by a tenth shows how much of the difference it
/// causes. For a long input, some queries suffice.
void CauseSearch::fit_epsilon(Trials& trials, Changes& candidates) {
  constexpr double tenth = 0.1, most_at_once = 30, smallest = 1e-15, largest = 10;
  constexpr int steps = 12, from_afar = 4;
  const bool half = trials.target().half.has_value();
  const auto fit = [&](double own, const std::function<Change(double)>& make) {
    if (!trials.concerns(make(own))) return;
    double eps = std::max(own, thresholds::least_seen_epsilon), first = HUGE_VAL, last = HUGE_VAL;
    for (int i = 0; i < steps; ++i) {
      const Change here = make(eps), more = make(eps * (1 + tenth));
      const double error = trials.screen({&here}).error;
      if (i == 0) first = error;
      // ε does not cause the difference.
      if (!std::isfinite(error) || (i == 1 && !(error < last)) ||
          (i == from_afar && !(error < thresholds::worth_fitting_epsilon * first)))
        return;
      last = error;
      const double by = tenth * trials.steps_between({&here}, {&more});
      if (!std::isfinite(by)) return;
      const double next =
          std::clamp(eps * std::clamp(1 + by, 1 / most_at_once, most_at_once), smallest, largest);
      if (std::fabs(next - eps) < 1e-9 * eps) break;
      eps = next;
    }
    eps = as_people_write(eps, half ? 0.1 : 0.02);
    if (std::fabs(eps - own) <= 1e-3 * own) return;
    Change change = make(eps);
    change.fitted = true;
    candidates.push_back(keep(std::move(change)));
  };
  for (const Epsilon& one : epsilons_of(layer_)) fit(one.own, one.change);
}

} // namespace mha
