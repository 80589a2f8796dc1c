#pragma once
// Registers of 512 bits under one set of names, for kernels written once for several widths
// (product_impl.hpp, rows_impl.hpp). For units compiled for AVX-512 only. Some intrinsics are taken
// in their masked form, with all lanes: the plain one makes GCC 12 warn of its own headers.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace mha {
namespace {

struct VectorF32 {
  using T = float;
  using Reg = __m512;
  using Mask = __mmask16;
  using Factor = Reg;
  static constexpr std::size_t width = 16;
  static constexpr Mask all = static_cast<Mask>(-1);
  static constexpr bool divides_slowly = true;
  static constexpr bool scales_slowly = false;

  static Mask first(std::size_t n) { return static_cast<Mask>((1u << n) - 1u); }
  static Reg fill(T x) { return _mm512_set1_ps(x); }
  static Reg load(const T* p) { return _mm512_loadu_ps(p); }
  static Reg load(const T* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  /// Numbers in bfloat16: the upper halves of their bits.
  static Reg load_bf16(const std::uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(all, _mm512_maskz_cvtepu16_epi32(all, bits), 16));
  }
  /// A number that many registers are multiplied with.
  static Factor factor(const T* p) { return fill(*p); }
  static void store(T* p, Reg x) { _mm512_storeu_ps(p, x); }
  static void store(T* p, Reg x, Mask m) { _mm512_mask_storeu_ps(p, m, x); }
  static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg subtract(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg multiply(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg divide(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg sum) { return _mm512_fmadd_ps(a, b, sum); }
  /// b where a or b is NaN.
  static Reg max(Reg a, Reg b) { return _mm512_maskz_max_ps(all, a, b); }
  static Reg min(Reg a, Reg b) { return _mm512_maskz_min_ps(all, a, b); }
  static Mask is_nan(Reg x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
  static Mask is_zero(Reg x) { return _mm512_cmp_ps_mask(x, fill(0), _CMP_EQ_OQ); }
  /// low ≤ x ≤ high
  static Mask within(Reg x, Reg low, Reg high) {
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(x, low, _CMP_GE_OQ), x, high, _CMP_LE_OQ);
  }
  static bool every(Mask m) { return m == all; }
  static Mask not_less(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
  static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
  static bool any(Mask m) { return m != 0; }
  /// x, and 0 outside the mask.
  static Reg keep(Reg x, Mask m) { return _mm512_maskz_mov_ps(m, x); }
  static Reg select(Reg otherwise, Reg x, Mask m) { return _mm512_mask_mov_ps(otherwise, m, x); }
  /// x · 2^n for a whole n, rounded once; 0 outside the mask.
  static Reg scale_by_power_where(Reg x, Reg n, Mask m) { return _mm512_maskz_scalef_ps(m, x, n); }
  /// x = mantissa · 2^exponent with 1 ≤ mantissa < 2, for positive normal x.
  static Reg exponent(Reg x) { return _mm512_maskz_getexp_ps(all, x); }
  static Reg mantissa(Reg x) {
    return _mm512_maskz_getmant_ps(all, x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  }
};

struct VectorF64 {
  using T = double;
  using Reg = __m512d;
  using Mask = __mmask8;
  using Factor = Reg;
  static constexpr std::size_t width = 8;
  static constexpr Mask all = static_cast<Mask>(-1);
  static constexpr bool divides_slowly = true;
  static constexpr bool scales_slowly = false;

  static Mask first(std::size_t n) { return static_cast<Mask>((1u << n) - 1u); }
  static Reg fill(T x) { return _mm512_set1_pd(x); }
  static Reg load(const T* p) { return _mm512_loadu_pd(p); }
  static Reg load(const T* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  static Factor factor(const T* p) { return fill(*p); }
  static void store(T* p, Reg x) { _mm512_storeu_pd(p, x); }
  static void store(T* p, Reg x, Mask m) { _mm512_mask_storeu_pd(p, m, x); }
  static Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  static Reg subtract(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  static Reg multiply(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  static Reg divide(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  static Reg fma(Reg a, Reg b, Reg sum) { return _mm512_fmadd_pd(a, b, sum); }
  static Reg max(Reg a, Reg b) { return _mm512_maskz_max_pd(all, a, b); }
  static Reg min(Reg a, Reg b) { return _mm512_maskz_min_pd(all, a, b); }
  static Mask is_nan(Reg x) { return _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q); }
  static Mask is_zero(Reg x) { return _mm512_cmp_pd_mask(x, fill(0), _CMP_EQ_OQ); }
  /// low ≤ x ≤ high
  static Mask within(Reg x, Reg low, Reg high) {
    return _mm512_mask_cmp_pd_mask(_mm512_cmp_pd_mask(x, low, _CMP_GE_OQ), x, high, _CMP_LE_OQ);
  }
  static bool every(Mask m) { return m == all; }
  static Mask not_less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_NLT_UQ); }
  static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
  static bool any(Mask m) { return m != 0; }
  static Reg keep(Reg x, Mask m) { return _mm512_maskz_mov_pd(m, x); }
  static Reg select(Reg otherwise, Reg x, Mask m) { return _mm512_mask_mov_pd(otherwise, m, x); }
  static Reg scale_by_power_where(Reg x, Reg n, Mask m) { return _mm512_maskz_scalef_pd(m, x, n); }
  static Reg exponent(Reg x) { return _mm512_maskz_getexp_pd(all, x); }
  static Reg mantissa(Reg x) {
    return _mm512_maskz_getmant_pd(all, x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  }
};

/// The halves of a register in double precision.
inline VectorF64::Reg low_half(VectorF32::Reg x) {
  return _mm512_maskz_cvtps_pd(VectorF64::all, _mm512_maskz_extractf32x8_ps(VectorF64::all, x, 0));
}
inline VectorF64::Reg high_half(VectorF32::Reg x) {
  return _mm512_maskz_cvtps_pd(VectorF64::all, _mm512_maskz_extractf32x8_ps(VectorF64::all, x, 1));
}

/// The quarters of four registers, rows to columns.
inline void transpose_quarters(__m512& a, __m512& b, __m512& c, __m512& d) {
  constexpr __mmask16 all = VectorF32::all;
  const __m512 ab_even = _mm512_maskz_shuffle_f32x4(all, a, b, 0x88);
  const __m512 ab_odd = _mm512_maskz_shuffle_f32x4(all, a, b, 0xdd);
  const __m512 cd_even = _mm512_maskz_shuffle_f32x4(all, c, d, 0x88);
  const __m512 cd_odd = _mm512_maskz_shuffle_f32x4(all, c, d, 0xdd);
  a = _mm512_maskz_shuffle_f32x4(all, ab_even, cd_even, 0x88);
  b = _mm512_maskz_shuffle_f32x4(all, ab_odd, cd_odd, 0x88);
  c = _mm512_maskz_shuffle_f32x4(all, ab_even, cd_even, 0xdd);
  d = _mm512_maskz_shuffle_f32x4(all, ab_odd, cd_odd, 0xdd);
}

/// Rows to columns: pairs and fours within the quarters of registers, then the quarters.
inline void transpose(VectorF32::Reg (&r)[VectorF32::width]) {
  constexpr __mmask16 all = VectorF32::all;
  constexpr __mmask8 pairs = VectorF64::all;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 16; i += 4) {
    const __m512d low = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, r[i], r[i + 1]));
    const __m512d high = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, r[i], r[i + 1]));
    const __m512d next_low = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, r[i + 2], r[i + 3]));
    const __m512d next_high = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, r[i + 2], r[i + 3]));
    r[i] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(pairs, low, next_low));
    r[i + 1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(pairs, low, next_low));
    r[i + 2] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(pairs, high, next_high));
    r[i + 3] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(pairs, high, next_high));
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) transpose_quarters(r[i], r[i + 4], r[i + 8], r[i + 12]);
}

inline void transpose(VectorF64::Reg (&r)[VectorF64::width]) {
  constexpr __mmask8 all = VectorF64::all;
  __m512 pairs[VectorF64::width];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    pairs[i] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(all, r[i], r[i + 1]));
    pairs[i + 1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(all, r[i], r[i + 1]));
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i)
    transpose_quarters(pairs[i], pairs[i + 2], pairs[i + 4], pairs[i + 6]);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) r[i] = _mm512_castps_pd(pairs[i]);
}

} // namespace
} // namespace mha
