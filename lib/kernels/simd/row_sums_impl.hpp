#pragma once
// The sums that measures of attention weights are made of, for any width of register: included once
// by each unit of an instruction set, after its vectors (V below). Everything has internal linkage.

#include <mha/kernels/simd/table.hpp>

#include <cstddef>

namespace mha {
namespace {

/// ln x of positive normal x, within a few units of the last place. x = m 2ᵉ with √½ ≤ m < √2, and
/// ln m = 2 artanh s = 2s (1 + s²/3 + s⁴/5 + …) with s = (m − 1) / (m + 1), |s| ≤ 0.172.
template <class V> inline typename V::Reg logarithm(typename V::Reg x) {
  using Reg = typename V::Reg;
  using T = typename V::T;
  constexpr bool single = sizeof(T) == sizeof(float);
  constexpr T ln2_high = single ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T ln2_low = single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  constexpr std::size_t terms = single ? 5 : 11; // 0.172^(2 · terms) is below the last place

  Reg e = V::exponent(x), m = V::mantissa(x);
  const typename V::Mask upper = V::not_less(m, V::fill(T(1.41421356237309504880)));
  m = V::select(m, V::multiply(m, V::fill(T(0.5))), upper);
  e = V::select(e, V::add(e, V::fill(1)), upper);
  const Reg s = V::divide(V::subtract(m, V::fill(1)), V::add(m, V::fill(1)));
  const Reg z = V::multiply(s, s), twice = V::add(s, s);
  Reg series = V::fill(T(1) / T(2 * terms + 1));
#pragma GCC unroll 11
  for (std::size_t k = terms - 1; k > 0; --k)
    series = V::fma(series, z, V::fill(T(1) / static_cast<T>(2 * k + 1)));
  const Reg ln_m = V::fma(V::multiply(twice, z), series, twice);
  return V::fma(e, V::fill(ln2_high), V::fma(e, V::fill(ln2_low), ln_m));
}

/// One register of lanes for each of the sums, in double precision.
template <class D> struct SumLanes {
  typename D::Reg sum = D::fill(0), entropy = D::fill(0), overlap = D::fill(0), first = D::fill(0),
                  second = D::fill(0);

  void add(typename D::Reg weight, typename D::Reg log_term, typename D::Reg smaller,
           typename D::Reg place) {
    sum = D::add(sum, weight);
    entropy = D::subtract(entropy, log_term);
    overlap = D::add(overlap, smaller);
    const typename D::Reg moment = D::multiply(weight, place);
    first = D::add(first, moment);
    second = D::fma(moment, place, second);
  }
};

template <class D> inline double total(typename D::Reg lanes) {
  double lane[D::width];
  D::store(lane, lanes);
  for (std::size_t half = D::width / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

template <class V>
RowSums row_sums(const typename V::T* row, std::size_t n, typename V::T uniform) {
  using T = typename V::T;
  using Reg = typename V::Reg;
  using D = VectorF64;
  double places[D::width];
  for (std::size_t l = 0; l < D::width; ++l) places[l] = static_cast<double>(l);
  SumLanes<D> low, high; // of float registers; doubles need one
  D::Reg place = D::load(places);
  const D::Reg step = D::fill(static_cast<double>(D::width));
  // 0 · ln(the smallest normal) is 0, so zeros need no branch.
  const Reg smallest = V::fill(sizeof(T) == sizeof(float) ? T(0x1p-126) : T(0x1p-1022));
  const Reg equal = V::fill(uniform);

  const auto add = [&](Reg weight) {
    const Reg log_term = V::multiply(weight, logarithm<V>(V::max(weight, smallest)));
    const Reg smaller = V::min(weight, equal);
    if constexpr (sizeof(T) == sizeof(float)) {
      low.add(low_half(weight), low_half(log_term), low_half(smaller), place);
      place = D::add(place, step);
      high.add(high_half(weight), high_half(log_term), high_half(smaller), place);
    } else {
      low.add(weight, log_term, smaller, place);
    }
    place = D::add(place, step);
  };
  std::size_t i = 0;
  for (; i + V::width <= n; i += V::width) add(V::load(row + i));
  if (i < n) add(V::load(row + i, V::first(n - i)));
  return {total<D>(D::add(low.sum, high.sum)), total<D>(D::add(low.entropy, high.entropy)),
          total<D>(D::add(low.overlap, high.overlap)), total<D>(D::add(low.first, high.first)),
          total<D>(D::add(low.second, high.second))};
}

} // namespace
} // namespace mha
