// Fits what depends on positions of keys: windows, texts computed in chunks, ALiBi's slopes.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

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

/// Tries window lengths: each short one, longer ones in growing steps, then those around the best.
void CauseSearch::fit_window(Trials& trials, Changes& candidates) {
  const auto longest = static_cast<std::int64_t>(layer_.dims.S_all) - 1;
  if (longest < 2) return;
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = 0; left < longest; left += 1 + left / 16) lengths.push_back(left);
  const auto best_of = [&](const std::vector<std::int64_t>& list) {
    std::vector<Change> made;
    for (std::int64_t left : list) made.push_back(window_change(layer_, left));
    std::vector<Changes> sets;
    for (const Change& change : made) sets.push_back({&change});
    std::int64_t best = list.front();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < sets.size(); ++i)
      if (const double error = trials.screen(sets[i]).error; error < least)
        best = list[i], least = error;
    return best;
  };
  const std::int64_t near = best_of(lengths), step = near / 16 + 1;
  std::vector<std::int64_t> around;
  for (std::int64_t left = std::max<std::int64_t>(0, near - step);
       left <= std::min(longest - 1, near + step); ++left)
    around.push_back(left);
  const std::int64_t left = best_of(around);
  if (left == layer_.settings.window_left) return;
  Change change = window_change(layer_, left);
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

/// ALiBi is linear in the distance, so that known biased scores determine the slopes.
void CauseSearch::fit_slopes(Trials& trials, Changes& candidates) {
  const Stage stage = trials.target().stage;
  if (stage != Stage::biased && stage != Stage::masked && stage != Stage::weights) return;
  const Change none = alibi_slopes_change(std::vector<double>(layer_.dims.H), "");
  const Tensor plain = trials.value({&none});
  const Tensor& theirs = trials.target().theirs;
  const Dims& d = layer_.dims;
  std::vector<double> slopes;
  std::string described;
  for (std::size_t h = 0; h < d.H; ++h) {
    double up = 0, down = 0;
    for (std::size_t t = 0; t < d.T; ++t) {
      double mean_x = 0, mean_y = 0, n = 0, xy = 0, xx = 0;
      for (std::size_t j = 0; j < d.past + d.S; ++j) {
        const std::size_t at = (h * d.T + t) * d.S_all + j;
        double a = value_at(plain, at), b = value_at(theirs, at);
        if (stage == Stage::weights)
          a = a > 1e-6 ? std::log(a) : NAN, b = b > 1e-6 ? std::log(b) : NAN;
        if (!std::isfinite(a) || !std::isfinite(b) || b <= thresholds::mask_constant) continue;
        const double x = static_cast<double>(static_cast<std::ptrdiff_t>(j) -
                                             layer_.query_position(0, t)),
                     y = b - a;
        n += 1, mean_x += x, mean_y += y, xy += x * y, xx += x * x;
      }
      if (n < 2) continue;
      up += xy - mean_x * mean_y / n, down += xx - mean_x * mean_x / n;
    }
    slopes.push_back(down > 0 ? up / down : 0);
    if (h < 8) described += fmt::format("{}{:.4g}", h == 0 ? "" : ", ", slopes.back());
  }
  Change change = alibi_slopes_change(slopes, described + (d.H > 8 ? ", …" : ""));
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

} // namespace mha
