#include <mha/compare/ulp.hpp>

#include <mha/compare/tolerances.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mha {

namespace {

/// The rank of a number in its type, counted from zero by its bits.
struct Rank {
  std::uint64_t from_zero = 0;
  bool negative = false;
  bool finite = true;
};

template <class Bits> Rank rank_of(Bits bits, Bits infinity) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
  return {magnitude, (bits & sign) != 0, magnitude < infinity};
}

Rank rank_of(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
  case DType::f64:
    return rank_of(std::bit_cast<std::uint64_t>(value), std::uint64_t{0x7ff0'0000'0000'0000});
  case DType::f16:
    return rank_of(to_half(single), std::uint16_t{0x7c00});
  case DType::bf16:
    return rank_of(to_bfloat16(single), std::uint16_t{0x7f80});
  default:
    return rank_of(std::bit_cast<std::uint32_t>(single), std::uint32_t{0x7f80'0000});
  }
}

} // namespace

double ulp_distance(double a, double b, DType dtype) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const Rank x = rank_of(a, dtype), y = rank_of(b, dtype);
  if (!x.finite || !y.finite) {
    const bool same = !x.finite && !y.finite && !std::isnan(a) && !std::isnan(b) &&
                      x.negative == y.negative; // both are too large for the type
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  const std::uint64_t steps = x.negative != y.negative    ? x.from_zero + y.from_zero
                              : x.from_zero > y.from_zero ? x.from_zero - y.from_zero
                                                          : y.from_zero - x.from_zero;
  return static_cast<double>(std::min(steps, std::uint64_t{1} << significand_bits(dtype)));
}

} // namespace mha
