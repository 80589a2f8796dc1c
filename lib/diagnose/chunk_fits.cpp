// Where a text was computed in pieces is seen in the first row that differs.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/chunks.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mha {

namespace {

/// Which tokens' rows differ by more than rounding does.
std::vector<bool> rows_apart(const Tensor& ours, const Tensor& theirs, Stage stage) {
  constexpr double more_than_rounding = 0.02;
  const std::size_t axis = info_of(stage).kind == Kind::token ? 1 : 2, T = ours.shape()[axis];
  std::size_t width = 1;
  for (std::size_t i = axis + 1; i < ours.rank(); ++i) width *= ours.shape()[i];
  std::vector<double> difference(T), size(T);
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double a = value_at(ours, i), b = value_at(theirs, i);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    difference[i / width % T] += (a - b) * (a - b), size[i / width % T] += b * b;
  }
  std::vector<bool> apart(T);
  for (std::size_t t = 0; t < T; ++t)
    apart[t] = difference[t] > more_than_rounding * more_than_rounding * size[t];
  return apart;
}

} // namespace

void CauseSearch::fit_chunks(Trials& trials, Changes& candidates) {
  const Target& target = trials.target();
  const Tensor ours = trials.value();
  const bool by_rows = info_of(target.stage).kind == Kind::token ||
                       (ours.rank() > 2 && ours.shape()[2] == layer_.dims.T);
  if (!by_rows || ours.shape() != target.theirs.shape()) return;
  const std::vector<bool> apart = rows_apart(ours, target.theirs, target.stage);
  const auto first = static_cast<std::size_t>(std::ranges::find(apart, true) - apart.begin());
  if (first == apart.size()) return;
  std::size_t last = apart.size() - 1;
  while (!apart[last]) --last;
  for (Change& change : first > 0 ? chunk_changes(layer_, first) : prefix_changes(layer_, last + 2))
    candidates.push_back(keep(std::move(change)));
}

} // namespace mha
