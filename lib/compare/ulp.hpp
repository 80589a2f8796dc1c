#pragma once
// Units in the last place: how many numbers of a type lie between two.

#include <mha/tensor/tensor.hpp>

#include <array>
#include <cstddef>

namespace mha {

/// From one number to the other in steps of neighbouring numbers of a floating type, both rounded
/// to it: 0 of the same (−0 and 0, too), 1 of neighbours; at most two to the power of its
/// significand's bits, beyond which no bit is the same. Infinite where one alone is finite, or is
/// not a number.
double ulp_distance(double a, double b, DType dtype);

/// Distances of many numbers.
struct UlpCounts {
  static constexpr std::array<std::size_t, 3> limits{1, 2, 8};

  double largest = 0;
  std::array<std::size_t, limits.size()> beyond{}; ///< how many numbers are farther than each

  void add(double distance) {
    if (distance > largest) largest = distance;
    for (std::size_t i = 0; i < limits.size(); ++i)
      beyond[i] += distance > static_cast<double>(limits[i]) ? 1 : 0;
  }
  void add(const UlpCounts& other) {
    if (other.largest > largest) largest = other.largest;
    for (std::size_t i = 0; i < limits.size(); ++i) beyond[i] += other.beyond[i];
  }
};

} // namespace mha
