#include <mha/diagnose/causes.hpp>

#include <mha/diagnose/harmless.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/layer/graph.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace mha {

namespace {
/// Screening computes with other bits: what comes so close is computed as a whole.
constexpr double worth_confirming = 0.01;
/// What a cause may leave of a difference from numbers in a short type.
constexpr double most_left = 0.5;

template <class List> List joined(List a, const List& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// "bias.missing.q" is part of "bias.missing".
bool is_part_of(const std::string& id, const std::string& whole) {
  return id.size() > whole.size() && id.starts_with(whole) && id[whole.size()] == '.';
}

std::string_view family_of(const std::string& id) {
  return std::string_view(id).substr(0, id.find('.'));
}

/// Roles exchanged and columns read in another order are one thing in other words: the two together
/// would take the weights apart twice.
bool exchanges_projections(const Change& change) {
  return (change.id.starts_with("swap.") || change.id.starts_with("weight.order.")) &&
         !contains(change.touches, Stage::scores); // k qᵀ leaves them as they are
}

/// Whether two changes are about the same thing, or one leaves out what the other changes.
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

/// Pairs of these that could explain a step together, the likely ones first, no more than `most`.
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

/// How many pairs are worth their time: all on small layers, on large ones the likely.
std::size_t most_pairs(const Dims& d, const Changes& candidates) {
  constexpr std::size_t all = 20000, small = std::size_t{1} << 16;
  const std::size_t width = std::max({d.d_model, d.H * (d.d_k + d.d_v), d.vocabulary});
  if (d.S_all * width <= small) return all;
  const auto likely = static_cast<std::size_t>(
      std::ranges::count_if(candidates, [](const Change* change) { return !change->rare; }));
  return likely * (likely - std::min<std::size_t>(likely, 1)) / 2;
}

} // namespace

std::size_t fitted_in(const Changes& changes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(changes, [](const Change* change) { return change->fitted; }));
}

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
  // Fewest unexplained stages, fewest changes, named rather than fitted ones.
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
  // Errors that differ by rounding alone are the same numbers.
  const bool half = targets_.front().half.has_value();
  const double same =
      half ? 1.05 * error : std::max(3 * error, layer_.dtype == DType::f64 ? 1e-12 : 2e-6);
  for (const Cause& one : complete_)
    if (rank(one) == lowest && one.error <= same) list.push_back(one);
  std::stable_sort(list.begin(), list.end(),
                   [&](const Cause& a, const Cause& b) { return order_of(a) < order_of(b); });
  // One that needs a fitted number may say the same in other words.
  for (const Cause& one : complete_)
    if (rank(one) != lowest && one.unexplained.empty() &&
        one.changes.size() == list.front().changes.size() && one.error <= same)
      list.push_back(one);
  return list;
}

/// The next stage is settled with this value, so far `off` the reference's: what follows is
/// computed from it.
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
  // The reference's own rounding may have grown on the way: is the step sound given its inputs?
  if (!state.inputs.empty())
    if (const Agreement sound = from_theirs(state).whole(); sound.agrees) {
      settle_with(std::move(state), target.theirs, sound.error, 0);
      return;
    }
  if (!settle_harmless(state, trials, ours, tolerance_of(layer_.dtype))) branch(state, trials);
}

bool CauseSearch::settle_harmless(const State& state, const Trials& trials, const Tensor& ours,
                                  double tolerance) {
  const Target& target = targets_[state.next];
  const std::string how = harmless_difference(layer_, trials, ours, tolerance);
  if (how.empty()) return false;
  State harmless = state;
  harmless.so_far.harmless[target.stage] = how;
  settle_with(std::move(harmless), ours, 0, 0);
  return std::ranges::any_of(
      complete_, [](const Cause& e) { return e.unexplained.empty() && e.changes.empty(); });
}

/// The next stage from the reference's own stages before it.
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

/// The changes that concern a step and go with those made.
Changes CauseSearch::candidates_for(const State& state, const Trials& trials) const {
  Changes candidates;
  for (const Change& change : changes_)
    if (trials.concerns(change) &&
        std::none_of(state.so_far.changes.begin(), state.so_far.changes.end(),
                     [&](const Change* made) { return excludes(*made, change); }))
      candidates.push_back(&change);
  return candidates;
}

/// Tries every change at a stage that differs, and goes on with those that make it agree.
void CauseSearch::branch(const State& state, Trials& trials) {
  const Target& target = targets_[state.next];
  std::vector<Changes> found;
  if (state.so_far.changes.size() < most_changes) {
    const Changes candidates = candidates_for(state, trials);
    found = explaining(state, trials, candidates);
    if (may_fit_better(trials, found)) {
      Changes fits;
      add_fits(state, trials, fits);
      for (const Changes& fit : explaining(state, trials, fits)) found.push_back(fit);
      keep_closest(trials, found);
    }
    if (found.empty() && explained_by_itself(state, candidates)) return;
    if (found.empty() && state.so_far.changes.size() + 2 <= most_changes)
      found = explaining_pairs(state, trials, candidates);
  }
  const std::size_t before = complete_.size();
  go_on(state, trials, found);
  if (complete_.size() > before) return;
  State next = state;
  next.so_far.unexplained.push_back(target.stage);
  settle_with(std::move(next), target.theirs, 0, 0);
}

/// Whether a change explains the step computed from the reference's own stages: what rounding made
/// of those before it may stand in the way where its numbers are small beside them.
bool CauseSearch::explained_by_itself(const State& state, const Changes& candidates) {
  if (targets_[state.next].half || state.inputs.empty()) return false;
  Trials by_itself = from_theirs(state);
  const std::size_t before = complete_.size();
  auto alone = alone_; // pairs are of what changes do to the stages as they are computed
  go_on(state, by_itself, explaining(state, by_itself, candidates));
  alone_ = std::move(alone);
  return complete_.size() > before;
}

void CauseSearch::go_on(const State& state, Trials& trials, const std::vector<Changes>& found) {
  const Target& target = targets_[state.next];
  for (const Changes& changes : found) {
    State next = state;
    next.so_far.changes = joined(state.so_far.changes, changes);
    const Tensor ours = trials.value(changes);
    try {
      const double error = target.half ? agreement_of(ours, target.theirs, target.tolerance).error
                                       : trials.judged(ours).error;
      settle_with(std::move(next),
                  target.half ? with_infinities(target.stage, ours, target.theirs) : ours, error,
                  target.half ? 0 : error);
    } catch (const Error&) { // a later stage cannot be computed with these changes: no cause
    }
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
      if (comes_before(stage, earlier.stage)) inputs.emplace(stage, value);
    const Trials trials(layer_, inputs, earlier, state.so_far.changes, threads_, state.off);
    if (std::none_of(changes.begin(), changes.end(),
                     [&](const Change* change) { return trials.concerns(*change); }))
      continue;
    if (!trials.whole(changes).agrees) return false;
  }
  return true;
}

/// The single changes under which the stage agrees, the best first.
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

/// Of the sets that may explain the stage by their screening, those that do, the best first.
std::vector<Changes> CauseSearch::confirmed(const State& state, Trials& trials,
                                            const std::vector<Changes>& sets,
                                            const std::vector<Agreement>& screened) const {
  if (targets_[state.next].half) return confirmed_in_half(state, trials, sets, screened);
  std::vector<std::pair<double, const Changes*>> likely, found;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (screened[i].agrees || screened[i].error <= worth_confirming)
      likely.emplace_back(screened[i].error, &sets[i]);
  const auto by_error = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(likely.begin(), likely.end(), by_error);
  if (likely.size() > most_confirmed) likely.resize(most_confirmed);
  // Of numbers that were stored in a short type most is left by what explains nothing, too.
  const bool is_stored_short = is_short(targets_[state.next].stored);
  const double most =
      is_stored_short && !likely.empty()
          ? most_left * agreement_of(trials.value(), targets_[state.next].theirs, 0).error
          : std::numeric_limits<double>::infinity();
  for (const auto& [error, changes] : likely) {
    const Agreement whole = trials.whole(*changes);
    if (whole.agrees && whole.error <= most && leaves_earlier_stages(state, *changes))
      found.emplace_back(whole.error, changes);
  }
  std::stable_sort(found.begin(), found.end(), by_error);
  std::vector<Changes> list;
  for (const auto& [error, changes] : found)
    if (list.size() < most_branches) list.push_back(*changes);
  return list;
}

/// Pairs of the changes that alone take most of a difference away with each of the others, however
/// rare: of two mistakes the larger one is seen through the smaller.
std::vector<Changes> CauseSearch::pairs_with_closest(const State& state, const Trials& trials,
                                                     const Changes& candidates) const {
  constexpr std::size_t most_closest = 4;
  constexpr double takes_most = 0.5;
  if (targets_[state.next].half) return {};
  const double unchanged = trials.screen(Changes{}).error;
  std::vector<std::pair<double, const Change*>> closest;
  for (const Change* one : candidates)
    if (const auto at = alone_.find(one);
        at != alone_.end() && at->second.error < takes_most * unchanged)
      closest.emplace_back(at->second.error, one);
  std::ranges::stable_sort(closest, {}, [](const auto& one) { return one.first; });
  if (closest.size() > most_closest) closest.resize(most_closest);
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

/// Candidates that make other numbers here than the layer as it is, and than those before them:
/// what two of the others do together, one of these or two do as well. One that cannot be made
/// alone may be made beside another.
Changes CauseSearch::with_effects_of_their_own(const Trials& trials,
                                               const Changes& candidates) const {
  constexpr double same = 1e-6; // screening computes with other bits
  const auto are_same = [](const Agreement& a, const Agreement& b) {
    const auto near = [](double x, double y) {
      return x == y || std::fabs(x - y) <= same * std::max(std::fabs(x), std::fabs(y));
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
  const std::vector<Changes> with_closest = joined(pairs_with_hidden_rows(state, candidates),
                                                   pairs_with_closest(state, trials, candidates));
  if (auto found = try_pairs(with_closest).first; !found.empty()) return found;
  const Changes different = with_effects_of_their_own(trials, candidates);
  const std::vector<Changes> sets =
      pairs_of(different, most_pairs(layer_.dims, different), with_closest);
  auto [list, results] = try_pairs(sets);
  if (list.empty()) note_runners_up(state, trials, sets, results);
  return list;
}

} // namespace mha
