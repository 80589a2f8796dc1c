#pragma once
// Running mean and standard deviation.

#include <cmath>
#include <cstddef>
#include <optional>

namespace mha {

/// The mean and standard deviation of numbers that are added one by one, by Welford's method
/// (1962), because a sum of squares would cancel.
struct MeanSpread {
  std::size_t count = 0;
  double centre = 0;  ///< the mean so far
  double squares = 0; ///< Σ (x − mean)²

  void add(double number) {
    ++count;
    const double before = number - centre;
    centre += before / static_cast<double>(count);
    squares += before * (number - centre);
  }
  std::optional<double> mean() const { return count > 0 ? std::optional(centre) : std::nullopt; }
  /// √(Σ (x − mean)² / (n − 1)); nothing for fewer than two numbers.
  std::optional<double> deviation() const {
    if (count < 2) return std::nullopt;
    return std::sqrt(squares / static_cast<double>(count - 1));
  }
};

} // namespace mha
