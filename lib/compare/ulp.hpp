#pragma once
// Units in the last place: how many numbers of a type lie between two.

#include <mha/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mha {

/// From one number to the other in steps of neighbouring numbers of a floating type, both rounded
/// to it: 0 of the same (−0 and 0, too), 1 of neighbours; at most two to the power of its
/// significand's bits, beyond which no bit is the same. Infinite where one alone is finite, or is
/// not a number.
double ulp_distance(double a, double b, DType dtype);

/// The same of two finite numbers of float32, which most are.
inline double ulp_distance(float a, float b) {
  constexpr std::uint32_t sign = std::uint32_t{1} << 31, most = std::uint32_t{1} << 24;
  const auto x = std::bit_cast<std::uint32_t>(a), y = std::bit_cast<std::uint32_t>(b);
  const std::uint32_t from_zero = x & ~sign, other = y & ~sign;
  const std::uint32_t steps = ((x ^ y) & sign) != 0 ? from_zero + other
                              : from_zero > other   ? from_zero - other
                                                    : other - from_zero;
  return static_cast<double>(std::min(steps, most));
}

/// Distances of many numbers.
struct UlpCounts {
  static constexpr std::array<std::size_t, 3> limits{1, 2, 8};

  double largest = 0;
  std::array<std::size_t, limits.size()> beyond{}; ///< how many numbers are farther than each

  void add(double distance) {
    if (distance > largest) largest = distance;
    if (distance <= static_cast<double>(limits[0])) return;
    for (std::size_t i = 0; i < limits.size(); ++i)
      beyond[i] += distance > static_cast<double>(limits[i]) ? 1 : 0;
  }
  void add(const UlpCounts& other) {
    if (other.largest > largest) largest = other.largest;
    for (std::size_t i = 0; i < limits.size(); ++i) beyond[i] += other.beyond[i];
  }
};

} // namespace mha
