// Where a text was computed in pieces is seen in the first row that differs.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/chunks.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>

namespace mha {

void CauseSearch::fit_chunks(Trials& trials, Changes& candidates) {
  const Target& target = trials.target();
  const Tensor ours = trials.value();
  const bool by_rows = info_of(target.stage).kind == Kind::token ||
                       (ours.rank() > 2 && ours.shape()[2] == layer_.dims.T);
  if (!by_rows || ours.shape() != target.theirs.shape()) return;
  const std::vector<std::size_t> apart =
      differing_parts(row_differences(sides_of(layer_, target, ours)), target.tolerance);
  if (apart.empty()) return;
  const std::size_t first = apart.front(), last = apart.back();
  for (Change& change : first > 0 ? chunk_changes(layer_, first) : prefix_changes(layer_, last + 2))
    candidates.push_back(keep(std::move(change)));
}

} // namespace mha
