#pragma once
// The functions of rows.hpp for any width of register: included once by each unit of an instruction
// set, after its vectors (V below). Everything has internal linkage. The steps and their order are
// the same for every width, so all sets with fused multiply-adds give the same bits.

#include <mha/kernels/simd/row_sums_impl.hpp>
#include <mha/kernels/simd/table.hpp>

#include <cstddef>

namespace mha {
namespace {

/// exp(x), within 2 ulp. x = n ln 2 + r with |r| ≤ ln 2 / 2; exp(x) = 2ⁿ (1 + r + r² q(r)). Below
/// `lowest` the result is 0 by a mask: rounding to 0 in the last multiplication would take the
/// processor's slow path, on every masked score.
template <class V>
inline typename V::Reg exponential_of(typename V::Reg x, typename V::T lowest,
                                      typename V::T highest, typename V::T ln2_high,
                                      typename V::T ln2_low, const typename V::T* q,
                                      std::size_t terms) {
  using Reg = typename V::Reg;
  using T = typename V::T;
  const typename V::Mask kept = V::not_less(x, V::fill(lowest)); // NaN is kept
  x = V::min(V::fill(highest), x);                               // min gives its second where NaN
  // x / ln 2 to the nearest whole number: beside so large a number there are no fractions.
  const Reg beside = V::fill(sizeof(T) == sizeof(float) ? T(0x1.8p23) : T(0x1.8p52));
  const Reg n =
      V::subtract(V::fma(x, V::fill(static_cast<T>(1.44269504088896340736)), beside), beside);
  Reg r = V::fma(n, V::fill(-ln2_high), x);
  r = V::fma(n, V::fill(-ln2_low), r);
  Reg sum = V::fill(q[0]);
#pragma GCC unroll 12
  for (std::size_t i = 1; i < terms; ++i) sum = V::fma(sum, r, V::fill(q[i]));
  sum = V::fma(sum, V::multiply(r, r), r);
  return V::scale_by_power_where(V::add(sum, V::fill(1)), n, kept);
}

template <class V> inline typename V::Reg exponential(typename V::Reg x) {
  if constexpr (sizeof(typename V::T) == sizeof(float)) {
    // q has the least largest relative error of the whole, 2⁻²⁷·⁹, for its degree
    constexpr float q[] = {1.381459878757596e-3f, 8.368716575205326e-3f, 4.166838899254799e-2f,
                           1.666652113199234e-1f, 4.999999403953552e-1f};
    // exp(−103.98) is just below half the smallest subnormal, exp(89) overflows
    return exponential_of<V>(x, -103.98f, 89.0f, 0.693359375f, -2.12194440e-4f, q, 5);
  } else {
    // q by Taylor: 1/13! … 1/2!, relative error 4e-18
    constexpr double q[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                            1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                            1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};
    return exponential_of<V>(x, -745.14, 710.0, 6.93147180369123816490e-01,
                             1.90821492927058770002e-10, q, 12);
  }
}

/// row[i] := step(row[i]), a register at a time. Meanwhile what lies behind the row is fetched into
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
  for (std::size_t v = 0; i < n; i += V::width, ++v) {
    const typename V::Mask rest = V::first(n - i < V::width ? n - i : V::width);
    const Reg x = V::select(lowest, V::load(row + i, rest), rest);
    nan = V::either(nan, V::is_nan(x));
    largest[v] = V::max(x, largest[v]);
  }
  if (V::any(nan)) return static_cast<T>(__builtin_nan(""));
  T lane[sum_lanes<T>];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) V::store(lane + v * V::width, largest[v]);
  for (std::size_t half = sum_lanes<T> / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l)
      lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
  return lane[0];
}

/// The sum, lane by lane, of what `whole(i)` gives for the register at element i of a row, and
/// `part(i, mask)` for those at its end.
template <class V, class Whole, class Part>
inline typename V::T sum_of(std::size_t n, Whole whole, Part part) {
  using T = typename V::T;
  constexpr std::size_t count = sum_lanes<T> / V::width;
  typename V::Reg sum[count];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) sum[v] = V::fill(0);
  std::size_t i = 0;
  for (; i + sum_lanes<T> <= n; i += sum_lanes<T>)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < count; ++v) sum[v] = V::add(sum[v], whole(i + v * V::width));
  for (std::size_t v = 0; i < n; i += V::width, ++v)
    sum[v] = V::add(sum[v], part(i, V::first(n - i < V::width ? n - i : V::width)));
  T lane[sum_lanes<T>];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < count; ++v) V::store(lane + v * V::width, sum[v]);
  for (std::size_t half = sum_lanes<T> / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

template <class V> typename V::T row_sum(const typename V::T* row, std::size_t n) {
  return sum_of<V>(
      n, [row](std::size_t i) { return V::load(row + i); },
      [row](std::size_t i, typename V::Mask m) { return V::load(row + i, m); });
}

template <class V> typename V::T row_exp_sum(typename V::T* row, std::size_t n, typename V::T shift,
                                             typename V::T factor) {
  const typename V::Reg less = V::fill(shift), by = V::fill(factor);
  return sum_of<V>(
      n,
      [row, less, by](std::size_t i) {
        const typename V::Reg e =
            exponential<V>(V::subtract(V::multiply(V::load(row + i), by), less));
        V::store(row + i, e);
        return e;
      },
      [row, less, by](std::size_t i, typename V::Mask m) {
        const typename V::Reg e =
            exponential<V>(V::subtract(V::multiply(V::load(row + i, m), by), less));
        V::store(row + i, e, m);
        return V::keep(e, m);
      });
}

/// The table of an instruction set.
template <class V, std::size_t most_rows, std::size_t regs>
constexpr Kernels<typename V::T> table(const char* name) {
  return {name,
          regs * V::width,
          strip<V, most_rows, regs>,
          pack_transposed<typename V::T>,
          pack<V>,
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
