#pragma once
// The functions of rows.hpp for any width of register: included once by each unit of an instruction
// set, after its vectors (V below). Everything has internal linkage. The steps and their order are
// the same for every width, so all sets with fused multiply-adds give the same bits.

#include <mha/kernels/simd/row_sums_impl.hpp>
#include <mha/kernels/simd/table.hpp>

#include <cstddef>

namespace mha {
namespace {

/// exp(x), within 2 ulp. x = n ln 2 + r with |r| ≤ ln 2 / 2; exp(x) = 2ⁿ (1 + r + r² q(r)).
template <class T> struct Exponential;
template <> struct Exponential<float> {
  /// q has the least largest relative error of the whole, 2⁻²⁷·⁹, for its degree.
  static constexpr float q[] = {1.381459878757596e-3f, 8.368716575205326e-3f, 4.166838899254799e-2f,
                                1.666652113199234e-1f, 4.999999403953552e-1f};
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  /// Beside so large a number there are no fractions.
  static constexpr float beside = 0x1.8p23f;
  /// exp(lowest) is just below half the smallest subnormal, exp(highest) overflows.
  static constexpr float lowest = -103.98f, highest = 89.0f;
  /// Up to |x| = near, 2ⁿ and the result are normal numbers.
  static constexpr float near = 86.0f;
};
template <> struct Exponential<double> {
  /// q by Taylor: 1/13! … 1/2!, relative error 4e-18.
  static constexpr double q[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                 1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                 1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};
  static constexpr double ln2_high = 6.93147180369123816490e-01,
                          ln2_low = 1.90821492927058770002e-10;
  static constexpr double beside = 0x1.8p52;
  static constexpr double lowest = -745.14, highest = 710.0, near = 707.0;
};

/// For `count` registers at once, a step after the other: the chain of one alone would wait for
/// each of its results. beside[i] is a large number plus n; x[i] becomes 1 + r + r² q(r).
template <class V, std::size_t count>
inline void exponentials_of_rest(typename V::Reg (&x)[count], typename V::Reg (&beside)[count]) {
  using T = typename V::T;
  using E = Exponential<T>;
  using Reg = typename V::Reg;
  Reg sum[count];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < count; ++i)
    beside[i] = V::fma(x[i], V::fill(static_cast<T>(1.44269504088896340736)), V::fill(E::beside));
#pragma GCC unroll 4
  for (std::size_t i = 0; i < count; ++i) { // r, in x
    const Reg n = V::subtract(beside[i], V::fill(E::beside));
    x[i] = V::fma(n, V::fill(-E::ln2_high), x[i]);
    x[i] = V::fma(n, V::fill(-E::ln2_low), x[i]);
    sum[i] = V::fill(E::q[0]);
  }
#pragma GCC unroll 12
  for (std::size_t term = 1; term < sizeof(E::q) / sizeof(E::q[0]); ++term)
#pragma GCC unroll 4
    for (std::size_t i = 0; i < count; ++i) sum[i] = V::fma(sum[i], x[i], V::fill(E::q[term]));
#pragma GCC unroll 4
  for (std::size_t i = 0; i < count; ++i)
    x[i] = V::add(V::fma(sum[i], V::multiply(x[i], x[i]), x[i]), V::fill(1));
}

/// exp(x). Below `lowest` the result is 0 by a mask: rounding to 0 in the last multiplication would
/// take the processor's slow path, on every masked score.
template <class V> inline typename V::Reg exponential(typename V::Reg x) {
  using E = Exponential<typename V::T>;
  const typename V::Mask kept = V::not_less(x, V::fill(E::lowest)); // NaN is kept
  typename V::Reg one[] = {V::min(V::fill(E::highest), x)}; // min gives its second where NaN
  typename V::Reg beside[1];
  exponentials_of_rest<V>(one, beside);
  return V::scale_by_power_where(one[0], V::subtract(beside[0], V::fill(E::beside)), kept);
}

/// Apart, so that its constants take no registers of the usual path's.
template <class V> __attribute__((noinline)) typename V::Reg exponential_apart(typename V::Reg x) {
  return exponential<V>(x);
}

/// x[i] := exp(x[i]) for `count` registers. Where all results are normal numbers, n is added to
/// their exponents: the same bits as by multiplications with powers of 2.
template <class V, std::size_t count> inline void exponentials(typename V::Reg (&x)[count]) {
  using E = Exponential<typename V::T>;
  if constexpr (!V::scales_slowly) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < count; ++i) x[i] = exponential<V>(x[i]);
  } else {
    typename V::Mask far = V::is_beyond(x[0], V::fill(E::near));
#pragma GCC unroll 4
    for (std::size_t i = 1; i < count; ++i)
      far = V::either(far, V::is_beyond(x[i], V::fill(E::near)));
    if (__builtin_expect(V::any(far), 0)) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < count; ++i) x[i] = exponential_apart<V>(x[i]);
      return;
    }
    typename V::Reg beside[count];
    exponentials_of_rest<V>(x, beside);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < count; ++i) x[i] = V::add_to_exponent(x[i], beside[i]);
  }
}

/// row[i] := step(row[i]), a register at a time. Meanwhile what follows the row is fetched into
/// the first cache: the next row, in a block of scores.
template <class V, class Step> inline void each(typename V::T* row, std::size_t n, Step step) {
  std::size_t i = 0;
  for (; i + V::width <= n; i += V::width) {
    __builtin_prefetch(row + n + i);
    V::store(row + i, step(V::load(row + i)));
  }
  if (i < n) {
    const typename V::Mask rest = V::first(n - i);
    V::store(row + i, step(V::load(row + i, rest)), rest);
  }
}

template <class V> void row_scale(typename V::T* row, std::size_t n, typename V::T factor) {
  const typename V::Reg by = V::fill(factor);
  each<V>(row, n, [by](typename V::Reg x) { return V::multiply(x, by); });
}

template <class V> void row_subtract(typename V::T* row, std::size_t n, typename V::T value) {
  const typename V::Reg less = V::fill(value);
  each<V>(row, n, [less](typename V::Reg x) { return V::subtract(x, less); });
}

/// The instruction takes as long as a dozen multiplications on 512 bits. From the rounded inverse,
/// two steps of correction with exact remainders give the same bits (P. Markstein, "Computation of
/// elementary functions on the IBM RISC System/6000 processor", 1990), as long as no step comes
/// near the ends of the exponent's range.
template <class V> void row_divide(typename V::T* row, std::size_t n, typename V::T divisor) {
  using Reg = typename V::Reg;
  constexpr typename V::T low = 0x1p-50f, high = 0x1p50f;
  const Reg by = V::fill(divisor);
  if (!V::divides_slowly || !(divisor >= low && divisor <= high))
    return each<V>(row, n, [by](Reg x) { return V::divide(x, by); });
  const Reg inverse = V::fill(1 / divisor), negative = V::fill(-divisor);
  each<V>(row, n, [by, inverse, negative](Reg x) {
    const typename V::Mask zero = V::is_zero(x);
    if (!V::every(V::either(zero, V::within(x, V::fill(low), V::fill(high)))))
      return V::divide(x, by);
    Reg quotient = V::multiply(x, inverse);
    quotient = V::fma(V::fma(quotient, negative, x), inverse, quotient);
    quotient = V::fma(V::fma(quotient, negative, x), inverse, quotient);
    return V::select(quotient, x, zero); // keeps the sign of a zero
  });
}

template <class V> void row_add(typename V::T* row, const typename V::T* other, std::size_t n) {
  std::size_t i = 0;
  for (; i + V::width <= n; i += V::width)
    V::store(row + i, V::add(V::load(row + i), V::load(other + i)));
  if (i < n) {
    const typename V::Mask rest = V::first(n - i);
    V::store(row + i, V::add(V::load(row + i, rest), V::load(other + i, rest)), rest);
  }
}

template <class V> typename V::T row_max(const typename V::T* row, std::size_t n) {
  using T = typename V::T;
  using Reg = typename V::Reg;
  constexpr std::size_t count = sum_lanes<T> / V::width;
  const Reg lowest = V::fill(-static_cast<T>(__builtin_inf()));
  Reg largest[count];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) largest[v] = lowest;
  typename V::Mask nan = V::is_nan(lowest);
  std::size_t i = 0;
  for (; i + sum_lanes<T> <= n; i += sum_lanes<T>)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < count; ++v) {
      const Reg x = V::load(row + i + v * V::width);
      nan = V::either(nan, V::is_nan(x));
      largest[v] = V::max(x, largest[v]);
    }
  T lane[sum_lanes<T>];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) V::store(lane + v * V::width, largest[v]);
  for (T* lanes = lane; i < n; i += V::width, lanes += V::width) {
    const typename V::Mask rest = V::first(n - i < V::width ? n - i : V::width);
    const Reg x = V::select(lowest, V::load(row + i, rest), rest);
    nan = V::either(nan, V::is_nan(x));
    V::store(lanes, V::max(x, V::load(lanes)));
  }
  if (V::any(nan)) return static_cast<T>(__builtin_nan(""));
  for (std::size_t half = sum_lanes<T> / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l)
      lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
  return lane[0];
}

/// The registers that hold sum_lanes elements.
template <class V> constexpr std::size_t lane_registers = sum_lanes<typename V::T> / V::width;

/// The sum, lane by lane, of what `whole(i, terms)` gives for the sum_lanes elements of a row from
/// i on, and `part(i, mask)` for each register at its end.
template <class V, class Whole, class Part>
inline typename V::T sum_of(std::size_t n, Whole whole, Part part) {
  using T = typename V::T;
  constexpr std::size_t count = lane_registers<V>;
  typename V::Reg sum[count];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) sum[v] = V::fill(0);
  std::size_t i = 0;
  for (; i + sum_lanes<T> <= n; i += sum_lanes<T>) {
    typename V::Reg terms[count];
    whole(i, terms);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < count; ++v) sum[v] = V::add(sum[v], terms[v]);
  }
  T lane[sum_lanes<T>];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) V::store(lane + v * V::width, sum[v]);
  for (T* sums = lane; i < n; i += V::width, sums += V::width)
    V::store(sums, V::add(V::load(sums), part(i, V::first(n - i < V::width ? n - i : V::width))));
  for (std::size_t half = sum_lanes<T> / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

template <class V> typename V::T row_sum(const typename V::T* row, std::size_t n) {
  return sum_of<V>(
      n,
      [row](std::size_t i, typename V::Reg* terms) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < lane_registers<V>; ++v)
          terms[v] = V::load(row + i + v * V::width);
      },
      [row](std::size_t i, typename V::Mask m) { return V::load(row + i, m); });
}

template <class V> typename V::T row_exp_sum(typename V::T* row, std::size_t n, typename V::T shift,
                                             typename V::T factor) {
  using Reg = typename V::Reg;
  const Reg less = V::fill(shift), by = V::fill(factor);
  return sum_of<V>(
      n,
      [row, less, by](std::size_t i, Reg(&terms)[lane_registers<V>]) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < lane_registers<V>; ++v)
          terms[v] = V::subtract(V::multiply(V::load(row + i + v * V::width), by), less);
        exponentials<V>(terms);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < lane_registers<V>; ++v)
          V::store(row + i + v * V::width, terms[v]);
      },
      [row, less, by](std::size_t i, typename V::Mask m) {
        const Reg e = exponential<V>(V::subtract(V::multiply(V::load(row + i, m), by), less));
        V::store(row + i, e, m);
        return V::keep(e, m);
      });
}

template <class V> constexpr auto packs_bf16()
    -> decltype(Kernels<typename V::T>::pack_transposed_bf16) {
  if constexpr (sizeof(typename V::T) == sizeof(float))
    return pack_transposed_bf16<V>;
  else
    return nullptr;
}

/// The table of an instruction set.
template <class V, std::size_t most_rows, std::size_t regs>
constexpr Kernels<typename V::T> table(const char* name) {
  return {name,
          regs * V::width,
          strip<V, most_rows, regs>,
          few_rows_transposed<V>,
          pack_transposed<V>,
          pack<V>,
          packs_bf16<V>(),
          row_max<V>,
          row_scale<V>,
          row_add<V>,
          row_subtract<V>,
          row_exp_sum<V>,
          row_sum<V>,
          row_divide<V>,
          row_sums<V>,
          multiply_adds<V>};
}

} // namespace
} // namespace mha
