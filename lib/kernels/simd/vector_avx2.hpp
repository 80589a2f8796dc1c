#pragma once
// Registers of 256 bits under the names of vector_avx512.hpp. For units compiled for AVX2 and FMA.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace mha {
namespace {

struct VectorF32 {
  using T = float;
  using Reg = __m256;
  using Mask = __m256i;
  using Factor = Reg;
  static constexpr std::size_t width = 8;
  static constexpr bool divides_slowly = false;
  static constexpr bool scales_slowly = true;

  static Mask first(std::size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Reg fill(T x) { return _mm256_set1_ps(x); }
  static Reg load(const T* p) { return _mm256_loadu_ps(p); }
  static Reg load(const T* p, Mask m) { return _mm256_maskload_ps(p, m); }
  /// Numbers in bfloat16: the upper halves of their bits.
  static Reg load_bf16(const std::uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  /// A number that many registers are multiplied with.
  static Factor factor(const T* p) { return fill(*p); }
  static void store(T* p, Reg x) { _mm256_storeu_ps(p, x); }
  static void store(T* p, Reg x, Mask m) { _mm256_maskstore_ps(p, m, x); }
  static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg subtract(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg multiply(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg divide(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg sum) { return _mm256_fmadd_ps(a, b, sum); }
  /// b where a or b is NaN.
  static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Mask is_nan(Reg x) { return _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }
  static Mask is_zero(Reg x) { return _mm256_castps_si256(_mm256_cmp_ps(x, fill(0), _CMP_EQ_OQ)); }
  /// low ≤ x ≤ high
  static Mask within(Reg x, Reg low, Reg high) {
    return _mm256_castps_si256(
        _mm256_and_ps(_mm256_cmp_ps(x, low, _CMP_GE_OQ), _mm256_cmp_ps(x, high, _CMP_LE_OQ)));
  }
  static bool every(Mask m) { return _mm256_testc_si256(m, _mm256_set1_epi32(-1)) != 0; }
  static Mask not_less(Reg a, Reg b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_NLT_UQ));
  }
  static Mask either(Mask a, Mask b) { return _mm256_or_si256(a, b); }
  static bool any(Mask m) { return _mm256_testz_si256(m, m) == 0; }
  /// x, and 0 outside the mask.
  static Reg keep(Reg x, Mask m) { return _mm256_and_ps(x, _mm256_castsi256_ps(m)); }
  static Reg select(Reg otherwise, Reg x, Mask m) {
    return _mm256_blendv_ps(otherwise, x, _mm256_castsi256_ps(m));
  }
  /// |x| > most, or NaN.
  static Mask is_beyond(Reg x, Reg most) {
    const Reg magnitude = _mm256_andnot_ps(fill(-0.0F), x);
    return _mm256_castps_si256(_mm256_cmp_ps(magnitude, most, _CMP_NLE_UQ));
  }
  /// x · 2^n where x and the result are normal, of the number 1.5 · 2²³ + n.
  static Reg add_to_exponent(Reg x, Reg shifted) {
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), n));
  }
  /// x · 2^n for a whole n in [−252, 254]: in two steps, of which only the second can round.
  static Reg scale_by_power_where(Reg x, Reg n, Mask m) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i rest = _mm256_sub_epi32(whole, half);
    return keep(multiply(multiply(x, power(half)), power(rest)), m);
  }
  /// x = mantissa · 2^exponent with 1 ≤ mantissa < 2, for positive normal x.
  static Reg exponent(Reg x) {
    const __m256i bits = _mm256_srli_epi32(_mm256_castps_si256(x), 23);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(bits, _mm256_set1_epi32(127)));
  }
  static Reg mantissa(Reg x) {
    const Reg fraction = _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x007fffff)));
    return _mm256_or_ps(fraction, fill(1));
  }

private:
  static Reg power(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
};

struct VectorF64 {
  using T = double;
  using Reg = __m256d;
  using Mask = __m256i;
  using Factor = Reg;
  static constexpr std::size_t width = 4;
  static constexpr bool divides_slowly = false;
  static constexpr bool scales_slowly = true;

  static Mask first(std::size_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(n)),
                              _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static Reg fill(T x) { return _mm256_set1_pd(x); }
  static Reg load(const T* p) { return _mm256_loadu_pd(p); }
  static Reg load(const T* p, Mask m) { return _mm256_maskload_pd(p, m); }
  static Factor factor(const T* p) { return fill(*p); }
  static void store(T* p, Reg x) { _mm256_storeu_pd(p, x); }
  static void store(T* p, Reg x, Mask m) { _mm256_maskstore_pd(p, m, x); }
  static Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  static Reg subtract(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  static Reg multiply(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  static Reg divide(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  static Reg fma(Reg a, Reg b, Reg sum) { return _mm256_fmadd_pd(a, b, sum); }
  static Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  static Reg min(Reg a, Reg b) { return _mm256_min_pd(a, b); }
  static Mask is_nan(Reg x) { return _mm256_castpd_si256(_mm256_cmp_pd(x, x, _CMP_UNORD_Q)); }
  static Mask is_zero(Reg x) { return _mm256_castpd_si256(_mm256_cmp_pd(x, fill(0), _CMP_EQ_OQ)); }
  /// low ≤ x ≤ high
  static Mask within(Reg x, Reg low, Reg high) {
    return _mm256_castpd_si256(
        _mm256_and_pd(_mm256_cmp_pd(x, low, _CMP_GE_OQ), _mm256_cmp_pd(x, high, _CMP_LE_OQ)));
  }
  static bool every(Mask m) { return _mm256_testc_si256(m, _mm256_set1_epi32(-1)) != 0; }
  static Mask not_less(Reg a, Reg b) {
    return _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_NLT_UQ));
  }
  static Mask either(Mask a, Mask b) { return _mm256_or_si256(a, b); }
  static bool any(Mask m) { return _mm256_testz_si256(m, m) == 0; }
  static Reg keep(Reg x, Mask m) { return _mm256_and_pd(x, _mm256_castsi256_pd(m)); }
  static Reg select(Reg otherwise, Reg x, Mask m) {
    return _mm256_blendv_pd(otherwise, x, _mm256_castsi256_pd(m));
  }
  static Mask is_beyond(Reg x, Reg most) {
    const Reg magnitude = _mm256_andnot_pd(fill(-0.0), x);
    return _mm256_castpd_si256(_mm256_cmp_pd(magnitude, most, _CMP_NLE_UQ));
  }
  /// x · 2^n where x and the result are normal, of the number 1.5 · 2⁵² + n.
  static Reg add_to_exponent(Reg x, Reg shifted) {
    const __m256i n = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52);
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(x), n));
  }
  /// x · 2^n for a whole n in [−2044, 2046]: in two steps, of which only the second can round.
  static Reg scale_by_power_where(Reg x, Reg n, Mask m) {
    const __m128i whole = _mm256_cvtpd_epi32(n);
    const __m128i half = _mm_srai_epi32(whole, 1);
    const __m128i rest = _mm_sub_epi32(whole, half);
    return keep(multiply(multiply(x, power(half)), power(rest)), m);
  }
  static Reg exponent(Reg x) {
    // The whole number e as the lowest bits of 2⁵² + e.
    const __m256i bits = _mm256_srli_epi64(_mm256_castpd_si256(x), 52);
    const Reg shifted = _mm256_or_pd(_mm256_castsi256_pd(bits), fill(0x1p52));
    return subtract(shifted, fill(0x1p52 + 1023));
  }
  static Reg mantissa(Reg x) {
    const __m256i mask = _mm256_set1_epi64x(0x000fffffffffffff);
    return _mm256_or_pd(_mm256_and_pd(x, _mm256_castsi256_pd(mask)), fill(1));
  }

private:
  static Reg power(__m128i n) {
    const __m256i biased = _mm256_add_epi64(_mm256_cvtepi32_epi64(n), _mm256_set1_epi64x(1023));
    return _mm256_castsi256_pd(_mm256_slli_epi64(biased, 52));
  }
};

/// The halves of a register in double precision.
inline VectorF64::Reg low_half(VectorF32::Reg x) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
inline VectorF64::Reg high_half(VectorF32::Reg x) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

/// Rows to columns: pairs and fours within the halves of registers, then the halves.
inline void transpose(VectorF32::Reg (&r)[VectorF32::width]) {
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 8; i += 4) {
    const __m256d low = _mm256_castps_pd(_mm256_unpacklo_ps(r[i], r[i + 1]));
    const __m256d high = _mm256_castps_pd(_mm256_unpackhi_ps(r[i], r[i + 1]));
    const __m256d next_low = _mm256_castps_pd(_mm256_unpacklo_ps(r[i + 2], r[i + 3]));
    const __m256d next_high = _mm256_castps_pd(_mm256_unpackhi_ps(r[i + 2], r[i + 3]));
    r[i] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, next_low));
    r[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, next_low));
    r[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high, next_high));
    r[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high, next_high));
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const __m256 upper = r[i], lower = r[i + 4];
    r[i] = _mm256_permute2f128_ps(upper, lower, 0x20);
    r[i + 4] = _mm256_permute2f128_ps(upper, lower, 0x31);
  }
}

inline void transpose(VectorF64::Reg (&r)[VectorF64::width]) {
  const __m256d low = _mm256_unpacklo_pd(r[0], r[1]), high = _mm256_unpackhi_pd(r[0], r[1]);
  const __m256d next_low = _mm256_unpacklo_pd(r[2], r[3]);
  const __m256d next_high = _mm256_unpackhi_pd(r[2], r[3]);
  r[0] = _mm256_permute2f128_pd(low, next_low, 0x20);
  r[1] = _mm256_permute2f128_pd(high, next_high, 0x20);
  r[2] = _mm256_permute2f128_pd(low, next_low, 0x31);
  r[3] = _mm256_permute2f128_pd(high, next_high, 0x31);
}

} // namespace
} // namespace mha
