#pragma once
// Numbers of about 106 bits, as unevaluated sums of two doubles: what functions.hpp is made of.
// Plain additions and multiplications only, so that results, also those at compile time, are the
// same on every machine.

#include <bit>
#include <cstdint>

namespace mha::maths {

/// hi + lo, where hi is the sum rounded.
struct Pair {
  double hi = 0, lo = 0;
};

constexpr Pair operator-(Pair a) {
  return {-a.hi, -a.lo};
}

/// a + b, exactly, if |a| ≥ |b| or a = 0 (Dekker 1971).
constexpr Pair ordered_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// a + b, exactly (Knuth, The Art of Computer Programming 2, 4.2.2).
constexpr Pair exact_sum(double a, double b) {
  const double sum = a + b, of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

/// The upper 26 bits of a, and the others (Veltkamp 1968); |a| below 2⁹⁹⁶.
constexpr Pair halves_of(double a) {
  const double wide = 134217729 * a, upper = wide - (wide - a);
  return {upper, a - upper};
}

/// a b, exactly unless a part is subnormal (Dekker 1971). A fused multiply-add would be shorter,
/// and a call where the processor might lack it.
constexpr Pair exact_product(double a, double b) {
  const Pair x = halves_of(a), y = halves_of(b);
  const double product = a * b;
  return {product, ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
}

constexpr Pair operator+(Pair a, double b) {
  const Pair sum = exact_sum(a.hi, b);
  return ordered_sum(sum.hi, sum.lo + a.lo);
}

constexpr Pair operator+(Pair a, Pair b) {
  const Pair sum = exact_sum(a.hi, b.hi), rest = exact_sum(a.lo, b.lo);
  const Pair both = ordered_sum(sum.hi, sum.lo + rest.hi);
  return ordered_sum(both.hi, both.lo + rest.lo);
}

constexpr Pair operator*(Pair a, double b) {
  const Pair product = exact_product(a.hi, b);
  return ordered_sum(product.hi, product.lo + a.lo * b);
}

constexpr Pair operator*(Pair a, Pair b) {
  const Pair product = exact_product(a.hi, b.hi);
  return ordered_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

constexpr Pair operator/(Pair a, Pair b) {
  const double first = a.hi / b.hi;
  const Pair rest = a + -(b * first);
  return ordered_sum(first, (rest.hi + rest.lo) / b.hi);
}

constexpr Pair operator/(Pair a, double b) {
  return a / Pair{b, 0};
}

/// 2ⁿ, −1022 ≤ n ≤ 1023.
inline double power_of_2(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

/// An integer next to x, |x| < 2⁵¹: beside so large a number there are no fractions.
inline double nearest_integer(double x) {
  return (x + 0x1.8p52) - 0x1.8p52;
}

inline constexpr Pair ln_2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr Pair half_pi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
inline constexpr Pair two_by_root_pi{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};

} // namespace mha::maths
