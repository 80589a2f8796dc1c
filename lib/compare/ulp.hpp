#pragma once
// Units in the last place: the number of a type's steps between two numbers.

#include <mha/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mha {

/// The distance of two numbers, rounded to a floating type, in steps between neighbouring numbers
/// of the type: 0 for the same number (and for −0 and 0), 1 for neighbours. At most 2 to the power
/// of the significand's bits, beyond which no bit is the same. Infinite if only one is finite or
/// NaN.
double ulp_distance(double a, double b, DType dtype);

/// The same for two finite float32 numbers, the usual case. Has no branch: which number is larger
/// is unpredictable.
inline std::uint32_t ulp_distance(float a, float b) {
  const auto rank = [](float value) { // counted from zero, negative below it
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
  std::array<std::size_t, limits.size()> beyond{}; ///< how many distances exceed each limit

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
