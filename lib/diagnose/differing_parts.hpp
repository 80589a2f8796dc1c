#pragma once
// Which heads, rows or columns of a stage differ from a reference's.

#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace mha {

/// A stage seen as (B, groups, rows, width) of ours and theirs.
struct Sides {
  Tensor ours, theirs;
  std::size_t B = 1, H = 1, T = 1, n = 1; ///< n: keys of a map, a head's width of a token stage
  bool map = false, packed = false;       ///< packed: B, T, H · n in memory

  std::size_t at(std::size_t b, std::size_t h, std::size_t t, std::size_t j) const {
    return packed ? ((b * T + t) * H + h) * n + j : ((b * H + h) * T + t) * n + j;
  }
};

/// A target beside the layer's own value of its stage.
Sides sides_of(const Layer& layer, const Target& target, Tensor ours);

/// The largest difference in each of the parts that `place(b, h, t, j)` numbers, relative to the
/// root of the mean square of theirs; infinite where one side alone is finite. Elements that either
/// side hides are left out.
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

/// The same of each row: a token of the text, or a query.
std::vector<double> row_differences(const Sides& s);

/// The parts that differ by more than rounding.
std::vector<std::size_t> differing_parts(const std::vector<double>& difference, double tolerance);

/// The joined heads that give an output: (output − b_o) W_oᵀ (W_o W_oᵀ)⁻¹, where W_o has no more
/// rows than columns. output: B, T, d_out; the result: B, T, H · d_v. Empty where W_o does not
/// tell.
Tensor joined_heads_of(const Layer& layer, const Tensor& output);

/// Sentences about the first stage that no change explains: which heads, keys or queries differ,
/// heads exchanged, quantised or other weights. `targets` in the order of the computation; the
/// layer in row form, with what was found changed. Empty where the numbers show nothing.
std::vector<std::string> hints_for(const Layer& layer, const std::vector<Target>& targets,
                                   Stage unexplained);

} // namespace mha
