// Pairs of changes that explain a stage together.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/tensor/not_saved.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace mha {

namespace {

/// "bias.missing.q" is part of "bias.missing".
bool is_part_of(const std::string& id, const std::string& whole) {
  return id.size() > whole.size() && id.starts_with(whole) && id[whole.size()] == '.';
}

std::string_view family_of(const std::string& id) {
  return std::string_view(id).substr(0, id.find('.'));
}

/// Exchanging roles and reading columns in another order have the same effect; both together would
/// permute the weights twice.
bool exchanges_projections(const Change& change) {
  return (change.id.starts_with("swap.") || change.id.starts_with("weight.order.")) &&
         !contains(change.touches, Stage::scores); // k qᵀ does not change the weights
}

} // namespace

bool excludes(const Change& a, const Change& b) {
  if (exchanges_projections(a) && exchanges_projections(b)) return true;
  if (a.id == b.id || is_part_of(a.id, b.id) || is_part_of(b.id, a.id)) return true;
  if (family_of(a.id) != family_of(b.id)) return false;
  const std::string_view family = family_of(a.id);
  const bool without = a.id.ends_with(".missing") || b.id.ends_with(".missing");
  return (without && family != "bias") || family == "scale" || family == "causal" ||
         family == "window" || family == "alibi" || family == "softmax" || family == "residual" ||
         family == "gqa";
}

namespace {

/// Up to `most` pairs of candidates that could explain a step together, likely ones first, without
/// those in `but`.
std::vector<Changes> pairs_of(const Changes& candidates, std::size_t most,
                              const std::vector<Changes>& but) {
  std::vector<Changes> pairs;
  const std::set<Changes> left_out(but.begin(), but.end());
  std::size_t tried = 0;
  for (const int rare : {0, 1, 2})
    for (std::size_t i = 0; i < candidates.size(); ++i)
      for (std::size_t j = i + 1; j < candidates.size() && tried < most; ++j) {
        const Change &a = *candidates[i], &b = *candidates[j];
        if (int{a.rare} + int{b.rare} != rare) continue;
        ++tried;
        if (excludes(a, b)) continue;
        if (Changes pair{&a, &b}; !left_out.contains(pair)) pairs.push_back(std::move(pair));
      }
  return pairs;
}

/// How many pairs are tried: all on small layers, only the likely ones on large layers.
std::size_t most_pairs(const Dims& d, const Changes& candidates) {
  const std::size_t width = std::max({d.d_model, d.H * (d.d_k + d.d_v), d.vocabulary});
  if (d.S_all * width <= thresholds::small_layer) return thresholds::all_pairs;
  const auto likely = static_cast<std::size_t>(
      std::ranges::count_if(candidates, [](const Change* change) { return !change->rare; }));
  return likely * (likely - std::min<std::size_t>(likely, 1)) / 2;
}

} // namespace

/// NaN in a reference may come from rows that a mask hides entirely. Pairs each change of the mask
/// with each treatment of such rows.
std::vector<Changes> CauseSearch::pairs_with_hidden_rows(const State& state,
                                                         const Changes& candidates) const {
  const Tensor& theirs = targets_[state.next].theirs;
  const auto is_nan = [&](std::size_t i) {
    const double value = value_at(theirs, i);
    return std::isnan(value) && !is_not_saved(value);
  };
  std::size_t at = 0;
  while (at < theirs.count() && !is_nan(at)) ++at;
  std::vector<Changes> pairs;
  if (at == theirs.count()) return pairs;
  for (const Change* rows : candidates)
    if (rows->id == "masked_rows")
      for (const Change* hidden : candidates)
        if (contains(hidden->touches, Stage::masked)) pairs.push_back({hidden, rows});
  return pairs;
}

/// Pairs the changes that alone remove most of a difference with every other change, rare ones
/// included, because the larger of two mistakes is visible despite the smaller.
std::vector<Changes> CauseSearch::pairs_with_closest(const State& state, const Trials& trials,
                                                     const Changes& candidates) const {
  if (targets_[state.next].half) return {};
  const double unchanged = trials.screen(Changes{}).error;
  std::vector<std::pair<double, const Change*>> closest;
  for (const Change* one : candidates)
    if (const auto at = alone_.find(one);
        at != alone_.end() && at->second.error < thresholds::takes_most * unchanged)
      closest.emplace_back(at->second.error, one);
  std::ranges::stable_sort(closest, {}, [](const auto& one) { return one.first; });
  if (closest.size() > thresholds::most_closest) closest.resize(thresholds::most_closest);
  std::vector<Changes> pairs;
  for (const auto& [error, one] : closest) {
    bool is_before = false; // pairs are in the order of the candidates
    for (const Change* other : candidates) {
      is_before = is_before || other == one;
      if (other == one || excludes(*one, *other)) continue;
      pairs.push_back(is_before ? Changes{one, other} : Changes{other, one});
    }
  }
  return pairs;
}

/// The candidates whose result differs from the unchanged layer's and from that of every earlier
/// candidate; pairs of the others would add nothing new. A change that is impossible alone may be
/// possible with another and is kept.
Changes CauseSearch::with_effects_of_their_own(const Trials& trials,
                                               const Changes& candidates) const {
  const auto are_same = [](const Agreement& a, const Agreement& b) {
    const auto near = [](double x, double y) {
      return x == y ||
             std::fabs(x - y) <= thresholds::same_bits * std::max(std::fabs(x), std::fabs(y));
    };
    return std::isfinite(a.error) && near(a.error, b.error) && near(a.ours, b.ours) &&
           near(a.theirs, b.theirs) && near(a.error_elsewhere, b.error_elsewhere);
  };
  std::vector<Agreement> seen{trials.screen(Changes{})};
  Changes own;
  for (const Change* one : candidates) {
    const auto at = alone_.find(one);
    if (at != alone_.end()) {
      const auto as = [&](const Agreement& other) { return are_same(at->second, other); };
      if (std::ranges::any_of(seen, as)) continue;
      seen.push_back(at->second);
    }
    own.push_back(one);
  }
  return own;
}

std::vector<Changes> CauseSearch::explaining_pairs(const State& state, Trials& trials,
                                                   const Changes& candidates) {
  const auto try_pairs = [&](const std::vector<Changes>& sets) {
    std::vector<Agreement> results = trials.screen(sets);
    return std::pair(confirmed(state, trials, sets, results), std::move(results));
  };
  std::vector<Changes> with_closest = pairs_with_hidden_rows(state, candidates);
  std::ranges::copy(pairs_with_closest(state, trials, candidates),
                    std::back_inserter(with_closest));
  if (auto found = try_pairs(with_closest).first; !found.empty()) return found;
  const Changes different = with_effects_of_their_own(trials, candidates);
  const std::vector<Changes> sets =
      pairs_of(different, most_pairs(layer_.dims, different), with_closest);
  auto [list, results] = try_pairs(sets);
  if (list.empty()) note_runners_up(state, trials, sets, results);
  return list;
}

/// Pairs each usual change of a mask with the scale that fits it best: both are often wrong at
/// once, because they are lines of one step.
std::vector<Changes> CauseSearch::explaining_with_scale(const State& state, Trials& trials,
                                                        const Changes& candidates) {
  Change scales;
  scales.touches = StageSet{Stage::scaled};
  if (!trials.concerns(scales)) return {};
  std::vector<Changes> sets;
  for (const Change* one : candidates) {
    if (one->rare || one->fitted || stage_of(*one) != Stage::masked) continue;
    Changes made = state.so_far.changes;
    made.push_back(one);
    Trials with(layer_, state.inputs, trials.target(), made, threads_, state.off);
    Changes fits;
    fit_scale(with, fits);
    for (const Change* fit : fits) sets.push_back({fit, one});
  }
  return confirmed(state, trials, sets, trials.screen(sets));
}

} // namespace mha
