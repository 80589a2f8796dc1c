// exp, exp2, log, log1p and pow by tables and short series (P. T. P. Tang, "Table-driven
// implementation of the exponential function in IEEE floating-point arithmetic", 1989, and "… of
// the logarithm function …", 1990).

#include <mha/maths/functions.hpp>

#include <mha/maths/lanes.hpp>
#include <mha/maths/pair.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mha::maths {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

constexpr int roots = 256; // the table has the powers of 2^(1/256)
constexpr double roots_by_ln_2 = 0x1.71547652b82fep+8;

/// 2^(j / roots).
constexpr std::array<Pair, roots> powers = [] {
  const Pair x = ln_2 / double{roots};
  Pair root{1, 0};
  for (int term = 14; term > 0; --term) root = Pair{1, 0} + root * x / double(term);
  std::array<Pair, roots> list{Pair{1, 0}};
  for (std::size_t j = 1; j < roots; ++j) list[j] = list[j - 1] * root;
  return list;
}();

/// (hi + lo) 2ⁿ, rounded once, also where the result is subnormal.
double scaled(Pair x, int n) {
  if (n > 1023) return (x.hi + x.lo) * 2 * power_of_2(n - 1);
  if (n > -1022 || (n == -1022 && x.hi >= 1)) return (x.hi + x.lo) * power_of_2(n);
  // Beside 1, a unit of the last place is the smallest subnormal, times 2¹⁰²².
  const double scale = power_of_2(n + 1022);
  const Pair sum = ordered_sum(1, x.hi * scale);
  return (sum.hi + (sum.lo + x.lo * scale) - 1) * 0x1p-1022;
}

/// eʳ − 1, |r| ≤ ln 2 / 512.
template <class Number> Number series_of_exp(Number r) {
  return r + r * r * (1. / 2 + r * (1. / 6 + r * (1. / 24 + r * (1. / 120 + r * (1. / 720)))));
}

/// 2^(k / roots) eʳ.
double power(double k, double r) {
  const int whole = static_cast<int>(k);
  const Pair two = powers[static_cast<std::size_t>(whole & (roots - 1))];
  return scaled(ordered_sum(two.hi, two.lo + two.hi * series_of_exp(r)), whole >> 8);
}

/// x − k ln 2 / 256, in two parts: k's products with the first are exact.
template <class Number> Number without_powers(Number x, Number k) {
  return (x - k * 0x1.62e42fef80000p-9) - k * 0x1.1cf79abc9e3b4p-44;
}

constexpr double exp_overflows = 709.79, exp_is_zero = -745.14;

/// exp(hi + lo).
double exp_of(Pair x) {
  if (!(x.hi > exp_is_zero)) return std::isnan(x.hi) ? x.hi : 0;
  if (x.hi > exp_overflows) return infinity;
  const double k = nearest_integer(x.hi * roots_by_ln_2);
  return power(k, without_powers(x.hi, k) + x.lo);
}

/// 2^(k / roots) of two integers k, as (hi + lo) · scale.
struct PowerLanes {
  Lanes hi, lo, scale;

  explicit PowerLanes(LaneBits k) {
    const Pair a = powers[k[0] & (roots - 1)], b = powers[k[1] & (roots - 1)];
    hi = Lanes{a.hi, b.hi}, lo = Lanes{a.lo, b.lo};
    scale = reinterpret_cast<Lanes>((k >> 8 << 52) + (std::uint64_t{1023} << 52));
  }
};

/// The same numbers as exp_of, two at once where both are usual.
Lanes exp_lanes(Lanes x) {
  if (!(std::fabs(x[0]) < 707 && std::fabs(x[1]) < 707))
    return Lanes{exp_of({x[0], 0}), exp_of({x[1], 0})};
  const Nearest k = nearest(x * roots_by_ln_2);
  const PowerLanes two(k.bits);
  return (two.hi + (two.lo + two.hi * series_of_exp(without_powers(x, k.value)))) * two.scale;
}

/// For results in float, whose conversion overflows and makes subnormals; NaN stays.
Lanes exp_lanes_for_float(Lanes x) {
  const Lanes least = both(-110), most = both(90);
  x = x < least ? least : x > most ? most : x;
  const Lanes t = x * roots_by_ln_2;
  const Nearest k = nearest(t);
  const PowerLanes two(k.bits);
  const Lanes r = (t - k.value) * (ln_2.hi / roots);
  return (two.hi + two.hi * (r + r * r * (0.5 + r * (1. / 6)))) * two.scale;
}

/// Near inverses c of j / 128, of ten bits so that their products with half a number are exact, for
/// j / 128 from √½ to √2, and −ln c. Around 1 both are exact, so that the logarithm is there, too.
struct Inverse {
  double c = 0;
  Pair minus_log;
};
constexpr int first_inverse = 90;
constexpr std::array<Inverse, 93> inverses = [] {
  std::array<Inverse, 93> list{};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const int j = first_inverse + static_cast<int>(i);
    const double c = static_cast<int>(128. * 512 / j + 0.5) / 512.;
    // ln c = 2 artanh s = 2 (s + s³/3 + s⁵/5 + …), s = (c − 1) / (c + 1)
    const Pair s = Pair{c - 1, 0} / (c + 1), square = s * s;
    Pair sum;
    for (int n = 45; n > 0; n -= 2) sum = sum * square + Pair{1, 0} / double(n);
    list[i] = {c, s * sum * -2.};
  }
  return list;
}();

/// x = m 2ᵉ with √½ < m < √2, of positive, finite x; e ln 2 in two parts, the first one exact (11
/// bits with 42).
struct Split {
  int e = 0;
  double m;

  explicit Split(double x) {
    if (x < 0x1p-1022) x *= 0x1p54, e = -54;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd;
    const auto power = static_cast<std::int64_t>(bits - root_half) >> 52;
    m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(power) << 52));
    e += static_cast<int>(power);
  }
  const Inverse& inverse() const {
    return inverses[static_cast<std::size_t>(static_cast<int>(m * 128 + 0.5)) - first_inverse];
  }
  double log_of_power() const { return e * 0x1.62e42fefa3800p-1; }
  double log_of_power_low() const { return e * 0x1.ef35793c76730p-45; }
};

/// r with m + m_low = (1 + r) / c, |r| < 2⁻⁷, so that ln x = e ln 2 − ln c + ln(1 + r).
Pair rest_of(const Split& x, double c, double m_low) {
  const Pair half = halves_of(x.m), low = exact_sum(half.lo * c, m_low * c);
  const Pair r = exact_sum(half.hi * c - 1, low.hi);
  return ordered_sum(r.hi, r.lo + low.lo);
}

/// 1/first − r/(first + 1) + r²/(first + 2) − … ± r^(last − first)/last.
template <int first, int last> double alternating(double r) {
  double sum = 1. / last;
#pragma GCC unroll 8
  for (int n = last - 1; n >= first; --n) sum = 1. / n - r * sum;
  return sum;
}

/// ln(hi + lo), rounded; hi is normal or lo = 0. What decides the last bits is exact; near 1 it is
/// r.
double rounded_log(Pair x) {
  const Split of(x.hi);
  const Inverse& by = of.inverse();
  const Pair r = rest_of(of, by.c, x.lo == 0 ? 0 : x.lo * power_of_2(-of.e));
  const double series = r.lo - r.hi * r.hi * alternating<2, 9>(r.hi);
  const Pair whole = exact_sum(of.log_of_power(), by.minus_log.hi), sum = exact_sum(whole.hi, r.hi);
  return sum.hi + (sum.lo + (whole.lo + (of.log_of_power_low() + by.minus_log.lo + series)));
}

/// ln x with a relative error of 2⁻⁶⁷.
Pair log_of(double x) {
  const Split of(x);
  const Inverse& by = of.inverse();
  const Pair r = rest_of(of, by.c, 0), square = r * r;
  const Pair log_of_sum = r + (square * -0.5 + r.hi * square.hi * alternating<3, 11>(r.hi));
  return ordered_sum(of.log_of_power(), of.log_of_power_low()) + (by.minus_log + log_of_sum);
}

/// ln x within 2⁻⁴⁰ of it, for a result in float; r is exact if x is one.
float log_for_float(double x) {
  const Split of(x);
  const Inverse& by = of.inverse();
  const double r = of.m * by.c - 1;
  return static_cast<float>(of.e * ln_2.hi +
                            (by.minus_log.hi + (r - r * r * alternating<2, 6>(r))));
}

bool is_integer(double y) {
  return std::floor(y) == y;
}

bool is_odd(double y) {
  return is_integer(y) && std::floor(y / 2) != y / 2;
}

/// xʸ of positive x, finite or not, and finite y: exp(y ln x).
double power_of_positive(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x == 0 || x == infinity) return (x == 0) == (y > 0) ? 0 : infinity;
  const Pair log = log_of(x);
  const double estimate = y * log.hi;
  if (!(std::fabs(estimate) < 800)) return estimate > 0 ? infinity : 0;
  if (std::fabs(estimate) < 0x1p-60) return 1;
  return exp_of(log * y);
}

} // namespace

double exp(double x) {
  return exp_of({x, 0});
}

double exp2(double x) {
  if (!(x > -1076)) return std::isnan(x) ? x : 0;
  if (x >= 1024) return infinity;
  const double k = nearest_integer(x * roots);
  return power(k, (x - k / roots) * ln_2.hi);
}

double log(double x) {
  if (x > 0) return x == infinity ? x : rounded_log({x, 0});
  return x == 0 ? -infinity : nan_value;
}

double log1p(double x) {
  if (std::fabs(x) < 0x1p-60 || x == infinity) return x;
  if (x > -1) return rounded_log(exact_sum(1, x));
  return x == -1 ? -infinity : nan_value;
}

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (std::isnan(x) || std::isnan(y)) return nan_value;
  const double size = std::fabs(x);
  if (std::isinf(y)) return size == 1 ? 1 : (size > 1) == (y > 0) ? infinity : 0;
  if (x < 0 && size != infinity && !is_integer(y)) return nan_value;
  const double result = power_of_positive(size, y);
  return std::signbit(x) && is_odd(y) ? -result : result;
}

float exp(float x) {
  return static_cast<float>(exp_lanes_for_float(both(static_cast<double>(x)))[0]);
}

float log(float x) {
  if (x > 0 && std::isfinite(x)) return log_for_float(static_cast<double>(x));
  return static_cast<float>(log(static_cast<double>(x)));
}

float log1p(float x) {
  const auto exact = static_cast<double>(x);
  if (std::fabs(x) < 0x1p-20f) return static_cast<float>(exact - exact * exact / 2);
  if (x > -1 && std::isfinite(x)) return log_for_float(1 + exact);
  return static_cast<float>(log1p(exact));
}

template <> void exp_row(float* row, std::size_t n) {
  each_pair(row, n, exp_lanes_for_float);
}

template <> void exp_row(double* row, std::size_t n) {
  each_pair(row, n, exp_lanes);
}

} // namespace mha::maths
