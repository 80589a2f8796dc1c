#pragma once
// The heads, rows and columns of a stage that differ from a reference's, and hints about them.

#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace mha {

/// Our value of a stage and the reference's, both seen as (B, heads, rows, width).
struct Sides {
  Tensor ours, theirs;
  std::size_t B = 1, H = 1, T = 1, n = 1; ///< n: keys of a map, or a head's width
  bool map = false, packed = false;       ///< packed: B, T, H · n in memory

  std::size_t at(std::size_t b, std::size_t h, std::size_t t, std::size_t j) const {
    return packed ? ((b * T + t) * H + h) * n + j : ((b * H + h) * T + t) * n + j;
  }
};

/// Combines a target with the layer's own value of its stage.
Sides sides_of(const Layer& layer, const Target& target, Tensor ours);

/// For each part, numbered by `place(b, h, t, j)`, the largest difference relative to the root mean
/// square of theirs; infinite if only one side is finite. Elements that either side hides are
/// skipped.
template <class Place>
std::vector<double> differences(const Sides& s, std::size_t parts, const Place& place) {
  std::vector<double> difference(parts, 0.0);
  double all = 0, count = 0;
  for (std::size_t b = 0; b < s.B; ++b)
    for (std::size_t h = 0; h < s.H; ++h)
      for (std::size_t t = 0; t < s.T; ++t)
        for (std::size_t j = 0; j < s.n; ++j) {
          const std::size_t i = s.at(b, h, t, j);
          const double a = value_at(s.ours, i), r = value_at(s.theirs, i);
          if (a == r || a <= thresholds::mask_constant || r <= thresholds::mask_constant) continue;
          double& part = difference[place(b, h, t, j)];
          if (!std::isfinite(a) || !std::isfinite(r)) part = INFINITY;
          part = std::max(part, std::fabs(a - r));
          all += r * r, count += 1;
        }
  const double unit = count > 0 && all > 0 ? std::sqrt(all / count) : 1;
  for (double& part : difference) part /= unit;
  return difference;
}

/// The same for each row, which is a token or a query.
std::vector<double> row_differences(const Sides& s);

/// The parts that differ by more than rounding.
std::vector<std::size_t> differing_parts(const std::vector<double>& difference, double tolerance);

/// For each head of theirs, the head of ours that it agrees with, its own if it does; empty if one
/// agrees with none.
std::vector<std::size_t> order_of_heads(const Sides& s, double tolerance);

/// Recovers the joined heads (B, T, H · d_v) from an output (B, T, d_out): (output − b_o) W_oᵀ (W_o
/// W_oᵀ)⁻¹. Empty if W_o has more rows than columns or is close to singular.
Tensor joined_heads_of(const Layer& layer, const Tensor& output);

/// Sentences about the first stage that no change explains: which heads, keys or queries differ,
/// exchanged heads, quantised or different weights. Empty if the numbers show nothing. `targets`
/// are in the order of the computation; the layer has tokens as rows and includes the changes
/// found.
std::vector<std::string> hints_for(const Layer& layer, const std::vector<Target>& targets,
                                   Stage unexplained);

} // namespace mha
