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

/// The same of two finite numbers of float32, which most are: without a branch, since neighbours
/// lie on either side.
inline std::uint32_t ulp_distance(float a, float b) {
  const auto rank = [](float value) { // from zero, negative ones below it
    const auto bits = std::bit_cast<std::int32_t>(value);
    const std::int32_t sign = bits >> 31, magnitude = bits & 0x7fff'ffff;
    return (magnitude ^ sign) - sign;
  };
  const std::int32_t x = rank(a), y = rank(b);
  const auto up = static_cast<std::uint32_t>(y) - static_cast<std::uint32_t>(x);
  return std::min(x < y ? up : 0U - up, std::uint32_t{1} << 24);
}

/// Distances of many numbers.
struct UlpCounts {
  static constexpr std::array<std::size_t, 3> limits{1, 2, 8};

  double largest = 0;
  std::array<std::size_t, limits.size()> beyond{}; ///< how many numbers are farther than each

  template <class Distance> void add(Distance distance) {
    largest = std::max(largest, static_cast<double>(distance));
    for (std::size_t i = 0; i < limits.size(); ++i)
      beyond[i] += static_cast<std::size_t>(distance > static_cast<Distance>(limits[i]));
  }
  void add(const UlpCounts& other) {
    if (other.largest > largest) largest = other.largest;
    for (std::size_t i = 0; i < limits.size(); ++i) beyond[i] += other.beyond[i];
  }
};

} // namespace mha
