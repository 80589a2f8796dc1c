#include <mha/diagnose/causes.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/judge.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>

namespace mha {

CauseSearch::CauseSearch(const Layer& layer, const std::vector<Target>& targets,
                         std::vector<Change> changes, std::size_t threads, const ModelAround* model)
    : layer_(layer), targets_(targets), threads_(threads), model_(model) {
  for (Change& change : changes) changes_.push_back(std::move(change));
}

const Change* CauseSearch::keep(Change change) {
  changes_.push_back(std::move(change));
  return &changes_.back();
}

std::size_t CauseSearch::order_of(const Cause& cause) const {
  std::size_t sum = 0;
  for (const Change* change : cause.changes)
    for (std::size_t i = 0; i < changes_.size(); ++i)
      if (&changes_[i] == change) sum += i;
  return sum;
}

std::vector<Cause> CauseSearch::find() {
  settle(State{});
  // Fewest unexplained stages first, then fewest changes, then named before fitted changes.
  const auto rank = [](const Cause& e) {
    return std::tuple(e.unexplained.size(), e.changes.size(), fitted_in(e.changes));
  };
  const auto best =
      std::min_element(complete_.begin(), complete_.end(),
                       [&](const Cause& a, const Cause& b) { return rank(a) < rank(b); });
  const auto lowest = rank(*best);
  std::vector<Cause> list;
  double error = std::numeric_limits<double>::infinity();
  for (const Cause& one : complete_)
    if (rank(one) == lowest) error = std::min(error, one.error);
  // Errors that differ only by rounding count as equal.
  const bool half = targets_.front().half.has_value();
  const double same =
      half ? thresholds::same_in_half * error
           : std::max(thresholds::same_exactly * error, layer_.dtype == DType::f64 ? 1e-12 : 2e-6);
  for (const Cause& one : complete_)
    if (rank(one) == lowest && one.error <= same) list.push_back(one);
  std::stable_sort(list.begin(), list.end(),
                   [&](const Cause& a, const Cause& b) { return order_of(a) < order_of(b); });
  // A cause with a fitted number may be the same change in another form.
  for (const Cause& one : complete_)
    if (rank(one) != lowest && one.unexplained.empty() &&
        one.changes.size() == list.front().changes.size() && one.error <= same)
      list.push_back(one);
  return list;
}

/// Settles the next stage with this value, from which later stages are computed. `off` is its
/// relative distance from the reference's value.
void CauseSearch::settle_with(State state, const Tensor& value, double error, double off) {
  state.inputs[targets_[state.next].stage] = value;
  state.off[targets_[state.next].stage] = off;
  state.so_far.error = std::max(state.so_far.error, error);
  ++state.next;
  settle(std::move(state));
}

void CauseSearch::settle(State state) {
  if (state.next == targets_.size()) {
    complete_.push_back(std::move(state.so_far));
    return;
  }
  const Target& target = targets_[state.next];
  Trials trials(layer_, state.inputs, target, state.so_far.changes, threads_, state.off);
  const Tensor ours = trials.value();
  if (target.half) {
    settle_in_half(std::move(state), trials, ours);
    return;
  }
  if (const Agreement own = trials.judged(ours); own.agrees) {
    settle_with(std::move(state), ours, own.error, own.error);
    return;
  }
  // Rounding may have grown through the reference's earlier stages. Check the step from the
  // reference's own inputs.
  if (!state.inputs.empty())
    if (const Agreement sound = from_theirs(state).whole(); sound.agrees) {
      settle_with(std::move(state), target.theirs, sound.error, 0);
      return;
    }
  if (!settle_harmless(state, trials, ours, tolerance_of(layer_.dtype))) branch(state, trials);
}

/// Computes a step from the stages of a reference in half precision, so that only the rounding of
/// this step remains. A difference of that size counts as agreement unless a change removes most of
/// it, which cannot happen with random rounding.
void CauseSearch::settle_in_half(State state, Trials& trials, const Tensor& ours) {
  const Target& target = targets_[state.next];
  const Agreement own = trials.judged(ours);
  if (own.agrees && own.error <= storing_error(target.half)) {
    settle_with(std::move(state), with_infinities(target.stage, ours, target.theirs), 0, 0);
    return;
  }
  if (own.agrees) {
    if (state.so_far.changes.size() < thresholds::most_changes) {
      Changes candidates = candidates_for(state, trials);
      std::erase_if(candidates, [](const Change* one) { return one->id == "rope.rounded"; });
      std::vector<Changes> better = explaining(state, trials, candidates);
      const StageJudge judge(trials);
      std::erase_if(better, [&](const Changes& changes) { return judge.helps_one_row(changes); });
      if (better.empty())
        for (Changes& changes : judge.seen_through_rounding(ours, candidates, alone_))
          if (better.size() < thresholds::most_branches && leaves_earlier_stages(state, changes))
            better.push_back(std::move(changes));
      if (!better.empty()) {
        go_on(state, trials, better);
        return;
      }
    }
    settle_with(std::move(state), with_infinities(target.stage, ours, target.theirs), 0, 0);
    return;
  }
  if (!settle_harmless(state, trials, ours, target.tolerance)) branch(state, trials);
}

bool CauseSearch::settle_harmless(const State& state, const Trials& trials, const Tensor& ours,
                                  double tolerance) {
  const Target& target = targets_[state.next];
  std::string how = harmless_difference(layer_, trials, ours, tolerance);
  if (how.empty() && target.half == std::nullopt && joins_heads_later(state))
    how = heads_in_another_order(layer_, trials, ours);
  if (how.empty()) return false;
  State harmless = state;
  harmless.so_far.harmless[target.stage] = how;
  settle_with(std::move(harmless), ours, 0, 0);
  return std::ranges::any_of(
      complete_, [](const Cause& e) { return e.unexplained.empty() && e.changes.empty(); });
}

/// Whether a later stage of the reference shows that heads in another order have no effect.
bool CauseSearch::joins_heads_later(const State& state) const {
  return std::ranges::any_of(
      targets_.begin() + static_cast<std::ptrdiff_t>(state.next), targets_.end(),
      [](const Target& one) {
        return is_of(one.stage, {Section::joined, Section::sum, Section::block, Section::model});
      });
}

/// Trials of the next stage computed from the reference's own earlier stages.
Trials CauseSearch::from_theirs(const State& state) const {
  Inputs theirs;
  for (std::size_t i = 0; i < state.next; ++i) {
    const Target& earlier = targets_[i];
    const bool other = state.so_far.harmless.count(earlier.stage) > 0; // q and k go together
    const Tensor& used = state.inputs.at(earlier.stage);
    theirs[earlier.stage] = other ? used : with_infinities(earlier.stage, used, earlier.theirs);
  }
  return {layer_, theirs, targets_[state.next], state.so_far.changes, threads_};
}

/// The changes that affect a step and are compatible with those already made.
Changes CauseSearch::candidates_for(const State& state, const Trials& trials) const {
  Changes candidates;
  for (const Change& change : changes_)
    if (trials.concerns(change) &&
        std::none_of(state.so_far.changes.begin(), state.so_far.changes.end(),
                     [&](const Change* made) { return excludes(*made, change); }))
      candidates.push_back(&change);
  return candidates;
}

/// Tries every change at a stage that differs and continues with those that make it agree.
void CauseSearch::branch(const State& state, Trials& trials) {
  const Target& target = targets_[state.next];
  std::vector<Changes> found;
  if (state.so_far.changes.size() < thresholds::most_changes) {
    const Changes candidates = candidates_for(state, trials);
    found = explaining(state, trials, candidates);
    if (const StageJudge judge(trials); judge.may_fit_better(found)) {
      Changes fits;
      add_fits(state, trials, fits);
      for (const Changes& fit : explaining(state, trials, fits)) found.push_back(fit);
      found = judge.closest_of(std::move(found));
    }
    if (found.empty() && explained_by_itself(state, candidates)) return;
    if (found.empty() && state.so_far.changes.size() + 2 <= thresholds::most_changes)
      found = explaining_pairs(state, trials, candidates);
    if (found.empty() && state.so_far.changes.size() + 2 <= thresholds::most_changes)
      found = explaining_with_scale(state, trials, candidates);
  }
  const std::size_t before = complete_.size();
  go_on(state, trials, found);
  if (complete_.size() > before) return;
  State next = state;
  next.so_far.unexplained.push_back(target.stage);
  settle_with(std::move(next), target.theirs, 0, 0);
}

/// Whether a change explains the step when it is computed from the reference's own stages. Rounding
/// of earlier stages may otherwise hide the effect in a step whose numbers are small compared with
/// theirs.
bool CauseSearch::explained_by_itself(const State& state, const Changes& candidates) {
  if (targets_[state.next].half || state.inputs.empty()) return false;
  Trials by_itself = from_theirs(state);
  const std::size_t before = complete_.size();
  auto alone = alone_; // pairs need the results on the computed stages
  go_on(state, by_itself, explaining(state, by_itself, candidates));
  alone_ = std::move(alone);
  return complete_.size() > before;
}

void CauseSearch::go_on(const State& state, Trials& trials, const std::vector<Changes>& found) {
  const Target& target = targets_[state.next];
  for (const Changes& changes : found) {
    State next = state;
    std::ranges::copy(changes, std::back_inserter(next.so_far.changes));
    const Tensor ours = trials.value(changes);
    if_allowed([&] { // if a later stage cannot be computed with them, they are not a cause
      const double error = target.half ? agreement_of(ours, target.theirs, target.tolerance).error
                                       : trials.judged(ours).error;
      settle_with(std::move(next),
                  target.half ? with_infinities(target.stage, ours, target.theirs) : ours, error,
                  target.half ? 0 : error);
    });
  }
}

/// A change that also touches earlier stages must leave them in agreement.
bool CauseSearch::leaves_earlier_stages(const State& state, const Changes& changes) const {
  for (std::size_t i = 0; i < state.next; ++i) {
    const Target& earlier = targets_[i];
    if (state.so_far.harmless.count(earlier.stage)) continue;
    if (std::count(state.so_far.unexplained.begin(), state.so_far.unexplained.end(), earlier.stage))
      continue;
    Inputs inputs;
    for (const auto& [stage, value] : state.inputs)
      if (comes_before(layer_, stage, earlier.stage)) inputs.emplace(stage, value);
    const Trials trials(layer_, inputs, earlier, state.so_far.changes, threads_, state.off);
    if (std::none_of(changes.begin(), changes.end(),
                     [&](const Change* change) { return trials.concerns(*change); }))
      continue;
    if (!trials.whole(changes).agrees) return false;
  }
  return true;
}

/// The single changes under which the stage agrees, best first.
std::vector<Changes> CauseSearch::explaining(const State& state, Trials& trials,
                                             const Changes& candidates) {
  std::vector<Changes> sets;
  for (const Change* candidate : candidates) sets.push_back({candidate});
  const std::vector<Agreement> results = trials.screen(sets);
  alone_.clear();
  for (std::size_t i = 0; i < sets.size(); ++i) alone_.emplace(sets[i][0], results[i]);
  note_runners_up(state, trials, sets, results);
  return confirmed(state, trials, sets, results);
}

/// The sets, among those that may explain the stage according to screening, that do explain it,
/// best first.
std::vector<Changes> CauseSearch::confirmed(const State& state, const Trials& trials,
                                            const std::vector<Changes>& sets,
                                            const std::vector<Agreement>& screened) const {
  const StageJudge judge(trials);
  using Found = std::pair<double, const Changes*>;
  std::vector<Found> likely, found;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (judge.is_likely(screened[i])) likely.emplace_back(screened[i].error, &sets[i]);
  std::ranges::stable_sort(likely, {}, &Found::first);
  if (likely.size() > thresholds::most_confirmed) likely.resize(thresholds::most_confirmed);
  for (const auto& [error, changes] : likely) {
    if (!found.empty() && !judge.is_as_good(error, found.front().first)) break;
    const std::optional<double> left = judge.left_by(*changes);
    if (left && leaves_earlier_stages(state, *changes)) found.emplace_back(*left, changes);
  }
  std::ranges::stable_sort(found, {}, &Found::first);
  std::vector<Changes> list;
  for (const auto& [left, changes] : found)
    if (list.size() < thresholds::most_branches && judge.is_as_good(left, found.front().first))
      list.push_back(*changes);
  return list;
}

/// Records the sets of changes that come closest at the first stage that differs.
void CauseSearch::note_runners_up(const State& state, const Trials& trials,
                                  const std::vector<Changes>& sets,
                                  const std::vector<Agreement>& results) {
  const bool first = std::none_of(complete_.begin(), complete_.end(),
                                  [](const Cause& one) { return !one.changes.empty(); });
  if (!first || !state.so_far.changes.empty() || !state.so_far.unexplained.empty()) return;
  const double unchanged = trials.screen(Changes{}).error;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    double least = unchanged; // the least error of its parts: a change without effect makes no pair
    if (sets[i].size() > 1)
      for (const Change* change : sets[i])
        if (const auto at = alone_.find(change); at != alone_.end())
          least = std::min(least, at->second.error);
    if (results[i].error < thresholds::worth_reporting * std::min(least, 1.0)) {
      Cause one;
      one.changes = sets[i], one.error = results[i].error;
      runners_up_.push_back(std::move(one));
    }
  }
  std::stable_sort(runners_up_.begin(), runners_up_.end(),
                   [](const Cause& a, const Cause& b) { return a.error < b.error; });
  if (runners_up_.size() > thresholds::most_runners_up)
    runners_up_.resize(thresholds::most_runners_up);
}

} // namespace mha
