#pragma once
// Repeated runs of a timed computation, and the median of their times.

#include <mha/schedule/times.hpp>

#include <algorithm>
#include <vector>

namespace mha {

/// Runs go on for this long and are at least this many, unless their number is given.
inline constexpr double enough_seconds = 2;
inline constexpr std::size_t fewest_runs = 5;

/// The median of at least one value; of an even number, the mean of the middle two.
inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// The medians of each stage.
inline StageSeconds median_of(const std::vector<StageSeconds>& runs) {
  StageSeconds median{};
  std::vector<double> of_stage(runs.size());
  for (std::size_t i = 0; i < stage_count; ++i) {
    for (std::size_t run = 0; run < runs.size(); ++run) of_stage[run] = runs[run][i];
    median[i] = median_of(of_stage);
  }
  return median;
}

} // namespace mha
