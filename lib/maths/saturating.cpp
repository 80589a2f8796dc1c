// erf and tanh from the nearest multiple of 1/64 (float: 1/32): a Taylor polynomial around it,
// whose coefficients follow from the function's differential equation when this file is compiled.
// Both functions are odd and reach 1 within the polynomials' range.

#include <mha/maths/functions.hpp>

#include <mha/maths/lanes.hpp>
#include <mha/maths/pair.hpp>

#include <array>
#include <cmath>
#include <type_traits>

namespace mha::maths {

namespace {

/// f(c + d) = value + slope d + d² (rest₀ + rest₁ d + …), for c = j / steps.
template <class T> struct Taylor;
template <> struct Taylor<float> {
  static constexpr int steps = 32, count = 4;
  Lanes start, rest[count / 2]; ///< value and slope

  constexpr void set(Pair value, Pair slope) { start = Lanes{value.hi, slope.hi}; }
};
/// The slope's upper part has 26 bits: its products with half of d are exact.
template <> struct Taylor<double> {
  static constexpr int steps = 64, count = 6;
  Lanes value, slope, rest[count / 2]; ///< upper and lower parts

  constexpr void set(Pair f, Pair derivative) {
    const double upper = halves_of(derivative.hi).hi;
    value = Lanes{f.hi, f.lo}, slope = Lanes{upper, derivative.hi - upper + derivative.lo};
  }
};
template <class T, int last> using Table = std::array<Taylor<T>, last * Taylor<T>::steps + 1>;

/// erf' = g = 2/√π exp(−x²), and g' = −2x g: (n + 1) g_{n+1} = −2 (c g_n + g_{n−1}).
template <class T, int last> constexpr Table<T, last> table_of_erf() {
  constexpr double step = 1.0 / Taylor<T>::steps;
  constexpr std::size_t terms = 14; // up to the next value, to the last bit of a Pair
  Pair inverse[terms + 1];
  for (std::size_t n = 1; n <= terms; ++n) inverse[n] = Pair{1, 0} / double(n);
  Table<T, last> table{};
  Pair value, slope = two_by_root_pi;
  for (std::size_t j = 0; j < table.size(); ++j) {
    const double c = static_cast<double>(j) * step;
    Pair g[terms] = {slope, slope * (-2 * c)};
    for (std::size_t n = 1; n + 1 < terms; ++n)
      g[n + 1] = (g[n] * c + g[n - 1]) * -2. * inverse[n + 1];
    table[j].set(value, slope);
    for (std::size_t n = 1; n < Taylor<T>::count; n += 2)
      table[j].rest[n / 2] =
          Lanes{g[n].hi / static_cast<double>(n + 1), g[n + 1].hi / static_cast<double>(n + 2)};
    Pair sum, integral;
    for (std::size_t n = terms; n-- > 0;) {
      sum = sum * step + g[n];
      integral = integral * step + g[n] * inverse[n + 1];
    }
    value = value + integral * step, slope = sum;
  }
  return table;
}

/// tanh c = (E − 1) / (E + 1) with E = exp 2c, and tanh' = 1 − tanh² = 4E / (E + 1)²:
/// (n + 1) t_{n+1} = −Σ t_i t_{n−i}.
template <class T, int last> constexpr Table<T, last> table_of_tanh() {
  constexpr std::size_t count = Taylor<T>::count;
  Pair factor{1, 0}; // exp(2 / steps)
  for (int n = 20; n > 0; --n) factor = Pair{1, 0} + factor * (2.0 / Taylor<T>::steps) / double(n);
  Table<T, last> table{};
  Pair E{1, 0};
  for (Taylor<T>& at : table) {
    const Pair value = (E + -1.) / (E + 1.), slope = E * 4. / ((E + 1.) * (E + 1.));
    at.set(value, slope);
    double t[count + 2] = {value.hi, slope.hi};
    for (std::size_t n = 1; n <= count; ++n) {
      double sum = 0;
      for (std::size_t i = 0; i <= n; ++i) sum += t[i] * t[n - i];
      t[n + 1] = -sum / static_cast<double>(n + 1);
    }
    for (std::size_t i = 0; i < count; i += 2) at.rest[i / 2] = Lanes{t[i + 2], t[i + 3]};
    E = E * factor;
  }
  return table;
}

constexpr auto erf_f32 = table_of_erf<float, 4>();
constexpr auto erf_f64 = table_of_erf<double, 6>();
constexpr auto tanh_f32 = table_of_tanh<float, 10>();
constexpr auto tanh_f64 = table_of_tanh<double, 20>();

Lanes firsts(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 2);
}
Lanes seconds(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 1, 3);
}

/// The polynomials of two arguments, evaluated side by side.
template <class T> Lanes near(const Taylor<T>& a, const Taylor<T>& b, Lanes d) {
  constexpr std::size_t pairs = Taylor<T>::count / 2;
  Lanes sum = both(0);
#pragma GCC unroll 4
  for (std::size_t i = 1; i <= pairs; ++i) {
    const Lanes &of_a = a.rest[pairs - i], &of_b = b.rest[pairs - i];
    sum = i == 1 ? seconds(of_a, of_b) : sum * d + seconds(of_a, of_b);
    sum = sum * d + firsts(of_a, of_b);
  }
  if constexpr (std::is_same_v<T, float>) { // within 2⁻⁹ units of a float's last place
    return firsts(a.start, b.start) + d * (seconds(a.start, b.start) + d * sum);
  } else {
    const Lanes wide = d * 134217729, upper = wide - (wide - d);
    const Lanes slope = firsts(a.slope, b.slope), value = firsts(a.value, b.value);
    const Lanes first = upper * slope, whole = value + first; // exact, and rounded
    const Lanes rest = (d - upper) * slope + d * seconds(a.slope, b.slope) + d * d * sum;
    return whole + (first - (whole - value) + (rest + seconds(a.value, b.value)));
  }
}

/// f(x) by its table; `slope` · x where the square of x is below the last place, and for NaN.
template <class T, std::size_t size>
Lanes saturating(const std::array<Taylor<T>, size>& table, double slope, Lanes x) {
  constexpr double steps = Taylor<T>::steps;
  const Lanes last = both(static_cast<double>(size - 1) / steps), above = magnitude(x);
  const Lanes inside = above < last ? above : last;
  const Nearest j = nearest(inside * steps);
  const Lanes y =
      near(table[j.bits[0] & 0xffff], table[j.bits[1] & 0xffff], inside - j.value * (1 / steps));
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
