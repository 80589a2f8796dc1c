// sin and cos of any double. The argument's distance to the nearest multiple of π/2 comes from an
// integer product with as many bits of 2/π as matter (M. Payne, R. Hanek, "Radian reduction for
// trigonometric functions", 1983), then sine and cosine from a table and short series.

#include <mha/maths/functions.hpp>

#include <mha/maths/pair.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mha::maths {

namespace {

__extension__ using Wide = unsigned __int128;

/// 64 zeros before the first bit of 2/π, then 1,216 bits: 53 + 128 of them after the exponent of
/// the largest double.
constexpr std::uint64_t two_by_pi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/// The 64 bits from `first` on.
std::uint64_t bits_from(unsigned first) {
  const std::uint64_t* word = two_by_pi + first / 64;
  const unsigned shift = first % 64;
  return shift == 0 ? word[0] : word[0] << shift | word[1] >> (64 - shift);
}

/// x = quadrant · π/2 + rest, |rest| ≤ π/4.
struct Angle {
  unsigned quadrant;
  Pair rest;
};

/// Of any x ≥ π/4. x = m 2ᵉ with an integer m; bits of 2/π before 2^(1−e) only add multiples of 4
/// to x · 2/π. Of the product with the next 192 bits, the first two are the quadrant, and no double
/// is so near to a multiple of π/2 that more than 62 bits after them are equal.
Angle reduced_exactly(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t m = (bits & 0xfffffffffffff) | 0x10000000000000;
  const auto first = static_cast<unsigned>(static_cast<int>(bits >> 52) - 1075 + 62);
  const Wide low = Wide{m} * bits_from(first + 128), middle = Wide{m} * bits_from(first + 64);
  Wide product = (Wide{m * bits_from(first)} << 64) + middle + (low >> 64);
  product += Wide{1} << 125; // to the nearest quadrant
  const auto quadrant = static_cast<unsigned>(product >> 126);
  product = (product << 2 >> 2) - (Wide{1} << 125);
  const bool negative = product >> 127 != 0;
  if (negative) product = -product;
  // The fraction is product · 2⁻¹²⁶: its first 53 bits, and the next 64.
  const auto upper = static_cast<std::uint64_t>(product >> 64);
  const int zeros = upper != 0 ? std::countl_zero(upper)
                               : 64 + std::countl_zero(static_cast<std::uint64_t>(product) | 1);
  product <<= zeros;
  const double unit = power_of_2(-62 - zeros) * (negative ? -1 : 1); // of the upper 64 bits
  const auto head = static_cast<double>(static_cast<std::uint64_t>(product >> 75)) * 2048;
  const auto tail = static_cast<double>(static_cast<std::uint64_t>(product >> 11));
  return {quadrant, Pair{head * unit, tail * (unit * 0x1p-53)} * half_pi};
}

/// Of 0 ≤ x. Usual positions' angles lose three parts of π/2, of which the products of the first
/// two are exact; where little of x is left, so is little of the third one's precision.
Angle reduced(double x) {
  if (x < half_pi.hi / 2) return {0, {x, 0}};
  if (x < 0x1p20) {
    const double k = nearest_integer(x * 0x1.45f306dc9c883p-1);
    const Pair most = exact_sum(x - k * 0x1.921fb54400000p+0, -k * 0x1.0b4611a600000p-34);
    const Pair rest = ordered_sum(most.hi, most.lo - k * 0x1.3198a2e037073p-69);
    if (std::fabs(rest.hi) > 0x1p-30) return {static_cast<unsigned>(k), rest};
  }
  return reduced_exactly(x);
}

/// sin c and cos c at c = j/32, from 0 to π/4. The upper parts have 26 bits.
struct Place {
  Pair sin, cos;
};
constexpr std::array<Place, 27> places = [] {
  const auto upper_half = [](Pair x) {
    const double upper = halves_of(x.hi).hi;
    return Pair{upper, x.hi - upper + x.lo};
  };
  std::array<Place, 27> list{};
  for (std::size_t j = 0; j < list.size(); ++j) {
    const double c = static_cast<double>(j) / 32;
    Pair sin{1, 0}, cos{1, 0}; // Σ (−1)ⁿ c²ⁿ / (2n + 1)!, Σ (−1)ⁿ c²ⁿ / (2n)!
    for (int n = 13; n > 0; --n) {
      sin = Pair{1, 0} + sin * (-c * c) / double(2 * n * (2 * n + 1));
      cos = Pair{1, 0} + cos * (-c * c) / double(2 * n * (2 * n - 1));
    }
    list[j] = {upper_half(sin * c), upper_half(cos)};
  }
  return list;
}();

/// For 0 ≤ y ≤ π/4 by the sum of the angles c and d = y − c, |d| ≤ 1/64. What is added to the first
/// parts is small or exact: products of d's upper half.
SinCos of_first_octant(Pair y) {
  const auto j = static_cast<std::size_t>(static_cast<int>(y.hi * 32 + 0.5));
  const double d = y.hi - static_cast<double>(j) / 32, square = d * d;
  const Pair half = halves_of(d);
  const auto& [sin, cos] = places[j];
  // sin d − d's upper half, and cos d − 1
  const double of_sin =
      half.lo + (y.lo + d * square * (-1. / 6 + square * (1. / 120 + square * (-1. / 5040))));
  const double of_cos = square * (-1. / 2 + square * (1. / 24 + square * (-1. / 720)));
  const double S = sin.hi + sin.lo, C = cos.hi + cos.lo;
  const Pair sine = ordered_sum(sin.hi, cos.hi * half.hi),
             cosine = ordered_sum(cos.hi, -sin.hi * half.hi);
  return {sine.hi + (sine.lo + (sin.lo + cos.lo * half.hi + C * of_sin + S * of_cos)),
          cosine.hi + (cosine.lo + (cos.lo - sin.lo * half.hi - S * of_sin + C * of_cos))};
}

/// −x if `odd` is.
double negated_if(unsigned odd, double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) ^ std::uint64_t{odd & 1} << 63);
}

} // namespace

SinCos sin_cos(double x) {
  const double size = std::fabs(x);
  if (!(size < std::numeric_limits<double>::infinity())) return {x - x, x - x};
  const auto [quadrant, rest] = reduced(size);
  const double side = std::copysign(1.0, rest.hi); // of the multiple of π/2
  const SinCos of = of_first_octant({rest.hi * side, rest.lo * side});
  // No branches: the quadrants of many positions follow no pattern.
  const double values[] = {of.sin * side, of.cos};
  return {negated_if(quadrant >> 1, values[quadrant & 1]) * std::copysign(1.0, x),
          negated_if((quadrant + 1) >> 1, values[~quadrant & 1])};
}

double sin(double x) {
  return sin_cos(x).sin;
}

double cos(double x) {
  return sin_cos(x).cos;
}

} // namespace mha::maths
