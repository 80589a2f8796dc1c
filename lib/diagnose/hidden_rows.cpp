// Causes of a reference's rows of NaN.

#include <mha/compare/not_saved.hpp>
#include <mha/diagnose/causes.hpp>

#include <cmath>

namespace mha {

/// Where a reference has NaN, a mask may hide some of its rows whole: each change of what is hidden
/// beside what becomes of such rows.
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

} // namespace mha
