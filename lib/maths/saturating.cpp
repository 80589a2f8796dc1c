// erf and tanh from the nearest multiple of 1/32: a Taylor polynomial around it, whose coefficients
// follow from the function's differential equation when this file is compiled. Both functions are
// odd and reach 1 within the polynomials' range.

#include <mha/maths/functions.hpp>

#include <mha/maths/lanes.hpp>
#include <mha/maths/pair.hpp>

#include <array>
#include <cmath>
#include <type_traits>

namespace mha::maths {

namespace {

constexpr std::size_t steps = 32;
constexpr double step = 1.0 / steps;

/// f(c + d) = value + slope d + d² (rest₀ + rest₁ d + …). The upper part of a double's slope has 26
/// bits: its products with half of d are exact.
template <class T> struct Taylor;
template <> struct Taylor<double> {
  static constexpr std::size_t count = 8;
  double value = 0, value_low = 0, slope = 0, slope_low = 0;
  double rest[count] = {};

  constexpr void start(Pair f, Pair derivative) {
    value = f.hi, value_low = f.lo;
    slope = halves_of(derivative.hi).hi, slope_low = derivative.hi - slope + derivative.lo;
  }
};
template <> struct Taylor<float> {
  static constexpr std::size_t count = 4;
  double value = 0, slope = 0;
  double rest[count] = {};

  constexpr void start(Pair f, Pair derivative) { value = f.hi, slope = derivative.hi; }
};

/// erf' = g = 2/√π exp(−x²), and g' = −2x g: (n + 1) g_{n+1} = −2 (c g_n + g_{n−1}).
template <class T, std::size_t last> constexpr auto table_of_erf() {
  constexpr std::size_t terms = 18; // up to the next value, to the last bit of a Pair
  std::array<Taylor<T>, last * steps + 1> table;
  Pair value, slope = two_by_root_pi;
  for (std::size_t j = 0; j < table.size(); ++j) {
    const double c = static_cast<double>(j) * step;
    Pair g[terms] = {slope, slope * (-2 * c)};
    for (std::size_t n = 1; n + 1 < terms; ++n)
      g[n + 1] = (g[n] * c + g[n - 1]) * -2. / static_cast<double>(n + 1);
    table[j].start(value, slope);
    for (std::size_t i = 0; i < Taylor<T>::count; ++i)
      table[j].rest[i] = g[i + 1].hi / static_cast<double>(i + 2);
    Pair sum, integral;
    for (std::size_t n = terms; n-- > 0;) {
      sum = sum * step + g[n];
      integral = integral * step + g[n] / static_cast<double>(n + 1);
    }
    value = value + integral * step, slope = sum;
  }
  return table;
}

/// tanh c = (E − 1) / (E + 1) with E = exp 2c, and tanh' = 1 − tanh² = 4E / (E + 1)²:
/// (n + 1) t_{n+1} = −Σ t_i t_{n−i}.
template <class T, std::size_t last> constexpr auto table_of_tanh() {
  constexpr std::size_t count = Taylor<T>::count;
  Pair factor{1, 0}; // exp(2 step)
  for (int n = 20; n > 0; --n) factor = Pair{1, 0} + factor * (2 * step) / double(n);
  std::array<Taylor<T>, last * steps + 1> table;
  Pair E{1, 0};
  for (Taylor<T>& at : table) {
    const Pair value = (E + -1.) / (E + 1.), slope = E * 4. / ((E + 1.) * (E + 1.));
    at.start(value, slope);
    double t[count + 2] = {value.hi, slope.hi};
    for (std::size_t n = 1; n <= count; ++n) {
      double sum = 0;
      for (std::size_t i = 0; i <= n; ++i) sum += t[i] * t[n - i];
      at.rest[n - 1] = t[n + 1] = -sum / static_cast<double>(n + 1);
    }
    E = E * factor;
  }
  return table;
}

constexpr auto erf_f32 = table_of_erf<float, 4>();
constexpr auto erf_f64 = table_of_erf<double, 6>();
constexpr auto tanh_f32 = table_of_tanh<float, 10>();
constexpr auto tanh_f64 = table_of_tanh<double, 20>();

/// The polynomials of two arguments, evaluated side by side.
template <class T> Lanes near(const Taylor<T>& a, const Taylor<T>& b, Lanes d) {
  constexpr std::size_t count = Taylor<T>::count;
  Lanes sum{a.rest[count - 1], b.rest[count - 1]};
#pragma GCC unroll 8
  for (std::size_t i = 2; i <= count; ++i)
    sum = sum * d + Lanes{a.rest[count - i], b.rest[count - i]};
  const Lanes slope{a.slope, b.slope}, value{a.value, b.value};
  if constexpr (std::is_same_v<T, float>) {
    return value + d * (slope + d * sum); // within 2⁻⁹ units of a float's last place
  } else {
    const Lanes wide = d * 134217729, upper = wide - (wide - d);
    const Lanes first = upper * slope, whole = value + first; // exact, and rounded
    const Lanes rest = (d - upper) * slope + d * Lanes{a.slope_low, b.slope_low} + d * d * sum;
    return whole + (first - (whole - value) + (rest + Lanes{a.value_low, b.value_low}));
  }
}

/// f(x) by its table; `slope` · x where the square of x is below the last place, and for NaN.
template <class T, std::size_t size>
Lanes saturating(const std::array<Taylor<T>, size>& table, double slope, Lanes x) {
  const Lanes last = both(static_cast<double>(size - 1) * step), above = magnitude(x);
  const Lanes inside = above < last ? above : last;
  const Nearest j = nearest(inside * static_cast<double>(steps));
  const Lanes y =
      near(table[j.bits[0] & 0xffff], table[j.bits[1] & 0xffff], inside - j.value * step);
  return above >= both(0x1p-60) ? with_sign(y, x) : x * slope;
}

Lanes erf_of(Lanes x, double) {
  return saturating(erf_f64, two_by_root_pi.hi, x);
}
Lanes erf_of(Lanes x, float) {
  return saturating(erf_f32, two_by_root_pi.hi, x);
}
Lanes tanh_of(Lanes x, double) {
  return saturating(tanh_f64, 1, x);
}
Lanes tanh_of(Lanes x, float) {
  return saturating(tanh_f32, 1, x);
}

} // namespace

double erf(double x) {
  return erf_of(both(x), x)[0];
}

double tanh(double x) {
  return tanh_of(both(x), x)[0];
}

template <class T> void erf_row(T* row, std::size_t n, T factor) {
  for (std::size_t i = 0; i < n; ++i) row[i] *= factor;
  each_pair(row, n, [](Lanes x) { return erf_of(x, T()); });
}

template <class T> void tanh_row(T* row, std::size_t n, T divisor) {
  for (std::size_t i = 0; i < n; ++i) row[i] /= divisor;
  each_pair(row, n, [](Lanes x) { return tanh_of(x, T()); });
}

template void erf_row(float*, std::size_t, float);
template void erf_row(double*, std::size_t, double);
template void tanh_row(float*, std::size_t, float);
template void tanh_row(double*, std::size_t, double);

} // namespace mha::maths
