// Changes that came closest to what no change explains.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <algorithm>

namespace mha {

/// The closest at the first stage that differs are worth telling.
void CauseSearch::note_runners_up(const State& state, const Trials& trials,
                                  const std::vector<Changes>& sets,
                                  const std::vector<Agreement>& results) {
  const bool first = std::none_of(complete_.begin(), complete_.end(),
                                  [](const Cause& one) { return !one.changes.empty(); });
  if (!first || !state.so_far.changes.empty() || !state.so_far.unexplained.empty()) return;
  const double unchanged = trials.screen(Changes{}).error;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    double least = unchanged; // of its parts: an idle change is no part of a pair
    if (sets[i].size() > 1)
      for (const Change* change : sets[i])
        if (const auto at = alone_.find(change); at != alone_.end())
          least = std::min(least, at->second.error);
    if (results[i].error < thresholds::worth_telling * std::min(least, 1.0)) {
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
