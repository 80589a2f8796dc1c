// Fits what depends on positions of keys: windows, texts computed in chunks, ALiBi's slopes, biases
// of distances.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

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

namespace {

/// Numbers for each distance key − query from `first` on, a row for each head.
struct DistanceBias {
  std::ptrdiff_t first = 0;
  std::vector<std::vector<double>> heads;

  double at(std::size_t h, std::ptrdiff_t distance) const {
    const std::ptrdiff_t i = distance - first;
    return i >= 0 && i < std::ssize(heads[h]) ? heads[h][static_cast<std::size_t>(i)] : 0;
  }
};

Change distance_change(const DistanceBias& bias, bool cross) {
  const auto [low, high] = std::ranges::minmax_element(bias.heads[0]);
  Change change{
      "bias.position.added", StageSet{Stage::biased},
      fmt::format(
          "adds a bias of each distance key − query (in head 0 from {:.3g} to {:.3g}), which "
          "this layer does not have",
          *low, *high),
      cross ? "add no position bias in cross-attention: T5's is for self-attention alone"
            : "leave out the position bias, or give it to this layer as well (relative_bias, bias)",
      [bias](Layer& edited) {
        write_bias(edited, "position bias",
                   [&](std::size_t h, std::ptrdiff_t distance) { return bias.at(h, distance); });
      }};
  change.fitted = true;
  return change;
}

} // namespace

/// A bias of distances in a layer that has none: of neighbouring keys, what the reference adds to
/// the one more than to the other is a number of their distances alone, whatever the softmax adds
/// to a whole row.
void CauseSearch::fit_distances(Trials& trials, Changes& candidates) {
  const Stage stage = trials.target().stage;
  const bool of_weights = stage == Stage::weights;
  if ((stage != Stage::masked && !of_weights) || has_step(layer_, Stage::biased)) return;
  const Tensor ours = trials.value();
  const Tensor& theirs = trials.target().theirs;
  if (ours.shape() != theirs.shape()) return;
  const Dims& d = layer_.dims;
  const std::size_t keys = d.past + d.S;
  std::ptrdiff_t lowest = 0, highest = 0;
  for (std::size_t b = 0; b < d.B; ++b)
    for (std::size_t t : {std::size_t{0}, d.T - 1}) {
      lowest = std::min(lowest, -layer_.query_position(b, t));
      highest =
          std::max(highest, static_cast<std::ptrdiff_t>(keys) - 1 - layer_.query_position(b, t));
    }
  const auto distances = static_cast<std::size_t>(highest - lowest) + 1;
  DistanceBias bias{lowest, {}};
  double largest = 0;
  for (std::size_t h = 0; h < d.H; ++h) {
    std::vector<double> steps(distances, 0.0), counts(distances, 0.0);
    double pairs = 0, offset = 0, offsets = 0;
    const auto added = [&](std::size_t b, std::size_t t, std::size_t j) {
      const std::size_t at = ((b * d.H + h) * d.T + t) * d.S_all + j;
      const double a = value_at(ours, at), r = value_at(theirs, at);
      if (of_weights) return a > 1e-6 && r > 1e-6 ? std::log(r / a) : NAN;
      return a > thresholds::mask_constant && r > thresholds::mask_constant ? r - a : NAN;
    };
    const auto each = [&](auto f) {
      for (std::size_t b = 0; b < d.B; ++b)
        for (std::size_t t = 0; t < d.T; ++t)
          for (std::size_t j = 0; j < keys; ++j)
            f(b, t, j,
              static_cast<std::size_t>(static_cast<std::ptrdiff_t>(j) -
                                       layer_.query_position(b, t) - lowest));
    };
    each([&](std::size_t b, std::size_t t, std::size_t j, std::size_t i) {
      const double step = j > 0 ? added(b, t, j) - added(b, t, j - 1) : NAN;
      if (std::isfinite(step)) steps[i] += step, counts[i] += 1, ++pairs;
    });
    // Each step must be seen several times: a number for each pair would explain anything.
    const auto seen =
        static_cast<double>(std::ranges::count_if(counts, [](double n) { return n > 0; }));
    if (pairs < 2 * seen || seen < 2) return;
    std::vector<double>& numbers = bias.heads.emplace_back(distances, 0.0);
    for (std::size_t i = 1; i < distances; ++i)
      numbers[i] = numbers[i - 1] + (counts[i] > 0 ? steps[i] / counts[i] : 0);
    each([&](std::size_t b, std::size_t t, std::size_t j, std::size_t i) {
      if (const double more = added(b, t, j); std::isfinite(more))
        offset += more - numbers[i], offsets += 1;
    });
    for (double& number : numbers) {
      if (!of_weights) number += offset / offsets;
      largest = std::max(largest, std::fabs(number));
    }
  }
  if (largest > trials.target().tolerance)
    candidates.push_back(keep(distance_change(bias, !layer_.X_k.empty())));
}

} // namespace mha
