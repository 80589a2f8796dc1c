// The search against a reference in half precision.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/harmless.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// Against a reference in half precision: what a cause may leave of the difference; errors that are
/// as good.
constexpr double most_left_in_half = 0.5, as_good_in_half = 1.3;
/// What a cause may leave besides the storing, in what rounding every step makes of the stage: a
/// right one leaves about once as much. Of two changes with a rare or a fitted one among them there
/// are so many that some pair always comes near.
constexpr double most_of_rounding = 2, most_of_rounding_for_rare_pairs = 1.2;
/// What leaves more may have another number: those are fitted, too.
constexpr double usual_of_rounding = 1.5;

double allowed_of_rounding(const Changes& changes) {
  const bool rare = std::ranges::any_of(
      changes, [](const Change* change) { return change->rare || change->fitted; });
  return changes.size() > 1 && rare ? most_of_rounding_for_rare_pairs : most_of_rounding;
}

/// Whether changes make little better but one row: where two keys are nearly equal, rounding
/// decides which of them a query reads, and what moves the scores a little decides otherwise.
bool helps_one_row(const Trials& trials, const Changes& changes) {
  return trials.screen(changes).error_elsewhere >
         most_left_in_half * trials.screen(Changes{}).error_elsewhere;
}

/// Rounding is at random: of n numbers it hides what a change does only up to a √n-th of its size.
/// So many times as far as that, in the very direction and as far as the change goes, is no chance.
constexpr double no_chance = 10, as_far_as_it_goes = 3, nearly = 0.05;
/// What hardly lessens the difference is not looked at; nor are roundings, which go where they go.
constexpr double lessens = 0.97;

/// Of changes tried alone, those that are seen through the rounding of a target, the nearest first.
std::vector<Changes> seen_through_rounding(const Trials& trials, const Tensor& ours,
                                           const Changes& candidates,
                                           const std::map<const Change*, Agreement>& alone) {
  const Tensor& theirs = trials.target().theirs;
  const double unchanged = trials.screen(Changes{}).error,
               root = std::sqrt(static_cast<double>(theirs.count()));
  std::vector<std::pair<double, const Change*>> seen;
  for (const Change* change : candidates) {
    if (!(alone.at(change).error < lessens * unchanged) || change->id.starts_with("precision."))
      continue;
    try {
      const Tensor value = trials.value({change});
      const double left = agreement_of(value, theirs, 0).error,
                   moved = agreement_of(value, ours, 0).error,
                   part = projection(theirs, value, ours), sure = moved / left * root;
      if (part * sure > no_chance &&
          std::fabs(part - 1) < std::max(as_far_as_it_goes / sure, nearly))
        seen.emplace_back(left, change);
    } catch (const Error&) { // a change that this layer does not allow
    }
  }
  std::ranges::stable_sort(seen, {}, [](const auto& one) { return one.first; });
  std::vector<Changes> sets;
  for (const auto& [left, change] : seen) sets.push_back({change});
  return sets;
}

} // namespace

Tensor with_infinities(Stage stage, const Tensor& ours, const Tensor& theirs) {
  if (stage != Stage::masked || ours.shape() != theirs.shape()) return theirs;
  Tensor result = copied(theirs);
  by_precision(theirs.dtype(), [&]<class T>(T) {
    const auto own = ours.as<T>();
    const auto to = result.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i)
      if (std::isinf(own[i]) && own[i] < 0 && to[i] <= T(-1e3)) to[i] = own[i];
  });
  return result;
}

/// Against a reference in half precision a step is computed from the reference's own stages: what
/// it rounds is then one step's. A difference of that size is none, unless a change takes most of
/// it away, which rounding at random cannot be taken for.
void CauseSearch::settle_in_half(State state, Trials& trials, const Tensor& ours) {
  const Target& target = targets_[state.next];
  const Agreement own = trials.judged(ours);
  if (own.agrees && own.error <= storing_error(target.half)) {
    settle_with(std::move(state), with_infinities(target.stage, ours, target.theirs), 0, 0);
    return;
  }
  if (own.agrees) {
    if (state.so_far.changes.size() < most_changes) {
      Changes candidates = candidates_for(state, trials);
      std::erase_if(candidates, [](const Change* one) { return one->id == "rope.rounded"; });
      std::vector<Changes> better = explaining(state, trials, candidates);
      std::erase_if(better, [&](const Changes& changes) { return helps_one_row(trials, changes); });
      if (better.empty())
        for (Changes& changes : seen_through_rounding(trials, ours, candidates, alone_))
          if (better.size() < most_branches && leaves_earlier_stages(state, changes))
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

/// The same against a reference in half precision: those that take most of the difference away and
/// leave what rounding may.
std::vector<Changes> CauseSearch::confirmed_in_half(const State& state, Trials& trials,
                                                    const std::vector<Changes>& sets,
                                                    const std::vector<Agreement>& screened) const {
  const Target& target = targets_[state.next];
  const double unchanged = trials.screen(Changes{}).error;
  std::vector<std::pair<double, const Changes*>> likely, found;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (screened[i].error <= most_left_in_half * unchanged)
      likely.emplace_back(screened[i].error, &sets[i]);
  const auto by_error = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(likely.begin(), likely.end(), by_error);
  if (likely.size() > most_confirmed) likely.resize(most_confirmed);
  for (const auto& [error, changes] : likely) {
    if (!found.empty() && error > as_good_in_half * found.front().first) break;
    try {
      const Tensor value = trials.value(*changes);
      const Agreement whole = agreement_of(value, target.theirs, target.tolerance);
      if (whole.error > most_left_in_half * unchanged) continue;
      if (whole.error > allowed_of_rounding(*changes) * trials.usual_rounding(*changes) +
                            storing_error(target.half))
        continue;
      if (!trials.is_rounding(value, *changes)) continue;
      if (leaves_earlier_stages(state, *changes)) found.emplace_back(whole.error, changes);
    } catch (const Error&) { // a change that this layer does not allow
    }
  }
  std::stable_sort(found.begin(), found.end(), by_error);
  std::vector<Changes> list;
  for (const auto& [error, changes] : found)
    if (list.size() < most_branches && error <= as_good_in_half * found.front().first)
      list.push_back(*changes);
  return list;
}

/// Whether the changes found at a stage leave so much that one with a fitted number may be meant.
bool CauseSearch::may_fit_better(Trials& trials, const std::vector<Changes>& found) const {
  return std::ranges::all_of(found, [&](const Changes& changes) {
    if (fitted_in(changes) > 0) return true;
    if (!trials.target().half) return false;
    const double left = agreement_of(trials.value(changes), trials.target().theirs, 0).error;
    return left > usual_of_rounding * trials.usual_rounding(changes);
  });
}

/// Against a short type the changes that explain a stage are those that leave the least of it.
void CauseSearch::keep_closest(Trials& trials, std::vector<Changes>& found) const {
  const Target& target = trials.target();
  if (!target.half || found.size() < 2) return;
  std::vector<double> left;
  for (const Changes& changes : found)
    left.push_back(agreement_of(trials.value(changes), target.theirs, target.tolerance).error);
  const double least = *std::ranges::min_element(left);
  std::vector<Changes> closest;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (left[i] <= as_good_in_half * least) closest.push_back(found[i]);
  found = std::move(closest);
}

} // namespace mha
