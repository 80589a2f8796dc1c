#pragma once
// Pairs of registers of 128 bits under the names of vector_avx2.hpp, with its width: so sums that
// are cut into lanes (row_sums_impl.hpp) have AVX2's bits, and 6 × 2 pairs fill the 32 registers.

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace mha {
namespace {

struct VectorF32 {
  using T = float;
  struct Reg {
    float32x4_t low, high;
  };
  struct Mask {
    uint32x4_t low, high; ///< all bits or none of each lane
  };
  using Factor = float32x2_t; ///< the number is its first lane
  static constexpr std::size_t width = 8;
  static constexpr bool divides_slowly = false;
  static constexpr bool scales_slowly = true;

  static Mask first(std::size_t n) {
    const uint32x4_t count = vdupq_n_u32(static_cast<std::uint32_t>(n));
    const uint32x4_t low = {0, 1, 2, 3}, high = {4, 5, 6, 7};
    return {vcgtq_u32(count, low), vcgtq_u32(count, high)};
  }
  static Reg fill(T x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static Reg load(const T* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  /// The mask is one of `first`: the lanes after it are not read.
  static Reg load(const T* p, Mask m) {
    const int n = lanes_in(m);
    return {first_of(p, n), first_of(p + 4, n - 4)};
  }
  /// Numbers in bfloat16: the upper halves of their bits.
  static Reg load_bf16(const std::uint16_t* p) {
    const uint16x8_t bits = vld1q_u16(p), zeros = vdupq_n_u16(0);
    return {vreinterpretq_f32_u16(vzip1q_u16(zeros, bits)),
            vreinterpretq_f32_u16(vzip2q_u16(zeros, bits))};
  }
  /// A number that many registers are multiplied with. Read by the instruction itself: compilers
  /// would copy it to all lanes, by a unit that multiplies meanwhile, or read many numbers at once
  /// and push sums out of the registers.
  static Factor factor(const T* p) {
    Factor x;
    asm("ldr %s0, %1" : "=w"(x) : "m"(*p));
    return x;
  }
  static void store(T* p, Reg x) { vst1q_f32(p, x.low), vst1q_f32(p + 4, x.high); }
  /// The mask is one of `first`.
  static void store(T* p, Reg x, Mask m) {
    const int n = lanes_in(m);
    store_first_of(p, x.low, n), store_first_of(p + 4, x.high, n - 4);
  }
  static Reg add(Reg a, Reg b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
  static Reg subtract(Reg a, Reg b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
  static Reg multiply(Reg a, Reg b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
  static Reg divide(Reg a, Reg b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }
  static Reg fma(Reg a, Reg b, Reg sum) {
    return {vfmaq_f32(sum.low, a.low, b.low), vfmaq_f32(sum.high, a.high, b.high)};
  }
  static Reg fma(Factor a, Reg b, Reg sum) {
    return {vfmaq_lane_f32(sum.low, b.low, a, 0), vfmaq_lane_f32(sum.high, b.high, a, 0)};
  }
  /// b where a or b is NaN.
  static Reg max(Reg a, Reg b) {
    return select(b, a, {vcgtq_f32(a.low, b.low), vcgtq_f32(a.high, b.high)});
  }
  static Reg min(Reg a, Reg b) {
    return select(b, a, {vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high)});
  }
  static Mask is_nan(Reg x) { return no(Mask{vceqq_f32(x.low, x.low), vceqq_f32(x.high, x.high)}); }
  static Mask is_zero(Reg x) { return {vceqzq_f32(x.low), vceqzq_f32(x.high)}; }
  /// low ≤ x ≤ high
  static Mask within(Reg x, Reg low, Reg high) {
    return {vandq_u32(vcgeq_f32(x.low, low.low), vcleq_f32(x.low, high.low)),
            vandq_u32(vcgeq_f32(x.high, low.high), vcleq_f32(x.high, high.high))};
  }
  static bool every(Mask m) { return vminvq_u32(vandq_u32(m.low, m.high)) != 0; }
  static Mask not_less(Reg a, Reg b) {
    return no(Mask{vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high)});
  }
  static Mask either(Mask a, Mask b) {
    return {vorrq_u32(a.low, b.low), vorrq_u32(a.high, b.high)};
  }
  static bool any(Mask m) { return vmaxvq_u32(vorrq_u32(m.low, m.high)) != 0; }
  /// x, and 0 outside the mask.
  static Reg keep(Reg x, Mask m) { return select(fill(0), x, m); }
  static Reg select(Reg otherwise, Reg x, Mask m) {
    return {vbslq_f32(m.low, x.low, otherwise.low), vbslq_f32(m.high, x.high, otherwise.high)};
  }
  /// |x| > most, or NaN.
  static Mask is_beyond(Reg x, Reg most) {
    return no(Mask{vcleq_f32(vabsq_f32(x.low), most.low), vcleq_f32(vabsq_f32(x.high), most.high)});
  }
  /// x · 2^n where x and the result are normal, of the number 1.5 · 2²³ + n.
  static Reg add_to_exponent(Reg x, Reg shifted) {
    return {added(x.low, vreinterpretq_s32_f32(shifted.low)),
            added(x.high, vreinterpretq_s32_f32(shifted.high))};
  }
  /// x · 2^n for a whole n in [−252, 254]: in two steps, of which only the second can round.
  static Reg scale_by_power_where(Reg x, Reg n, Mask m) {
    return keep({scaled(x.low, vcvtnq_s32_f32(n.low)), scaled(x.high, vcvtnq_s32_f32(n.high))}, m);
  }
  /// x = mantissa · 2^exponent with 1 ≤ mantissa < 2, for positive normal x.
  static Reg exponent(Reg x) { return {exponent(x.low), exponent(x.high)}; }
  static Reg mantissa(Reg x) { return {mantissa(x.low), mantissa(x.high)}; }

private:
  static Mask no(Mask m) { return {vmvnq_u32(m.low), vmvnq_u32(m.high)}; }
  static int lanes_in(Mask m) {
    return -vaddvq_s32(vreinterpretq_s32_u32(vaddq_u32(m.low, m.high)));
  }
  static float32x4_t first_of(const T* p, int n) {
    if (n >= 4) return vld1q_f32(p);
    float32x4_t x = vdupq_n_f32(0);
    if (n > 0) x = vld1q_lane_f32(p, x, 0);
    if (n > 1) x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2) x = vld1q_lane_f32(p + 2, x, 2);
    return x;
  }
  static void store_first_of(T* p, float32x4_t x, int n) {
    if (n >= 4) return vst1q_f32(p, x);
    if (n > 0) vst1q_lane_f32(p, x, 0);
    if (n > 1) vst1q_lane_f32(p + 1, x, 1);
    if (n > 2) vst1q_lane_f32(p + 2, x, 2);
  }
  static float32x4_t added(float32x4_t x, int32x4_t n) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), vshlq_n_s32(n, 23)));
  }
  static float32x4_t power(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }
  static float32x4_t scaled(float32x4_t x, int32x4_t whole) {
    const int32x4_t half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(x, power(half)), power(vsubq_s32(whole, half)));
  }
  static float32x4_t exponent(float32x4_t x) {
    const int32x4_t bits = vshrq_n_s32(vreinterpretq_s32_f32(x), 23);
    return vcvtq_f32_s32(vsubq_s32(bits, vdupq_n_s32(127)));
  }
  static float32x4_t mantissa(float32x4_t x) {
    return vbslq_f32(vdupq_n_u32(0x007fffff), x, vdupq_n_f32(1));
  }
};

struct VectorF64 {
  using T = double;
  struct Reg {
    float64x2_t low, high;
  };
  struct Mask {
    uint64x2_t low, high;
  };
  using Factor = float64x1_t;
  static constexpr std::size_t width = 4;
  static constexpr bool divides_slowly = false;
  static constexpr bool scales_slowly = true;

  static Mask first(std::size_t n) {
    const uint64x2_t count = vdupq_n_u64(n), low = {0, 1}, high = {2, 3};
    return {vcgtq_u64(count, low), vcgtq_u64(count, high)};
  }
  static Reg fill(T x) { return {vdupq_n_f64(x), vdupq_n_f64(x)}; }
  static Reg load(const T* p) { return {vld1q_f64(p), vld1q_f64(p + 2)}; }
  static Reg load(const T* p, Mask m) {
    const int n = lanes_in(m);
    return {first_of(p, n), first_of(p + 2, n - 2)};
  }
  static Factor factor(const T* p) {
    Factor x;
    asm("ldr %d0, %1" : "=w"(x) : "m"(*p));
    return x;
  }
  static void store(T* p, Reg x) { vst1q_f64(p, x.low), vst1q_f64(p + 2, x.high); }
  static void store(T* p, Reg x, Mask m) {
    const int n = lanes_in(m);
    store_first_of(p, x.low, n), store_first_of(p + 2, x.high, n - 2);
  }
  static Reg add(Reg a, Reg b) { return {vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high)}; }
  static Reg subtract(Reg a, Reg b) { return {vsubq_f64(a.low, b.low), vsubq_f64(a.high, b.high)}; }
  static Reg multiply(Reg a, Reg b) { return {vmulq_f64(a.low, b.low), vmulq_f64(a.high, b.high)}; }
  static Reg divide(Reg a, Reg b) { return {vdivq_f64(a.low, b.low), vdivq_f64(a.high, b.high)}; }
  static Reg fma(Reg a, Reg b, Reg sum) {
    return {vfmaq_f64(sum.low, a.low, b.low), vfmaq_f64(sum.high, a.high, b.high)};
  }
  static Reg fma(Factor a, Reg b, Reg sum) {
    return {vfmaq_lane_f64(sum.low, b.low, a, 0), vfmaq_lane_f64(sum.high, b.high, a, 0)};
  }
  static Reg max(Reg a, Reg b) {
    return select(b, a, {vcgtq_f64(a.low, b.low), vcgtq_f64(a.high, b.high)});
  }
  static Reg min(Reg a, Reg b) {
    return select(b, a, {vcltq_f64(a.low, b.low), vcltq_f64(a.high, b.high)});
  }
  static Mask is_nan(Reg x) { return no(Mask{vceqq_f64(x.low, x.low), vceqq_f64(x.high, x.high)}); }
  static Mask is_zero(Reg x) { return {vceqzq_f64(x.low), vceqzq_f64(x.high)}; }
  /// low ≤ x ≤ high
  static Mask within(Reg x, Reg low, Reg high) {
    return {vandq_u64(vcgeq_f64(x.low, low.low), vcleq_f64(x.low, high.low)),
            vandq_u64(vcgeq_f64(x.high, low.high), vcleq_f64(x.high, high.high))};
  }
  static bool every(Mask m) {
    return vminvq_u32(vreinterpretq_u32_u64(vandq_u64(m.low, m.high))) != 0;
  }
  static Mask not_less(Reg a, Reg b) {
    return no(Mask{vcltq_f64(a.low, b.low), vcltq_f64(a.high, b.high)});
  }
  static Mask either(Mask a, Mask b) {
    return {vorrq_u64(a.low, b.low), vorrq_u64(a.high, b.high)};
  }
  static bool any(Mask m) {
    return vmaxvq_u32(vreinterpretq_u32_u64(vorrq_u64(m.low, m.high))) != 0;
  }
  static Reg keep(Reg x, Mask m) { return select(fill(0), x, m); }
  static Reg select(Reg otherwise, Reg x, Mask m) {
    return {vbslq_f64(m.low, x.low, otherwise.low), vbslq_f64(m.high, x.high, otherwise.high)};
  }
  static Mask is_beyond(Reg x, Reg most) {
    return no(Mask{vcleq_f64(vabsq_f64(x.low), most.low), vcleq_f64(vabsq_f64(x.high), most.high)});
  }
  /// x · 2^n where x and the result are normal, of the number 1.5 · 2⁵² + n.
  static Reg add_to_exponent(Reg x, Reg shifted) {
    return {added(x.low, vreinterpretq_s64_f64(shifted.low)),
            added(x.high, vreinterpretq_s64_f64(shifted.high))};
  }
  /// x · 2^n for a whole n in [−2044, 2046]: in two steps, of which only the second can round.
  static Reg scale_by_power_where(Reg x, Reg n, Mask m) {
    return keep({scaled(x.low, vcvtnq_s64_f64(n.low)), scaled(x.high, vcvtnq_s64_f64(n.high))}, m);
  }
  static Reg exponent(Reg x) { return {exponent(x.low), exponent(x.high)}; }
  static Reg mantissa(Reg x) { return {mantissa(x.low), mantissa(x.high)}; }

private:
  static Mask no(Mask m) {
    return {veorq_u64(m.low, vdupq_n_u64(~0ULL)), veorq_u64(m.high, vdupq_n_u64(~0ULL))};
  }
  static int lanes_in(Mask m) {
    return static_cast<int>(-vaddvq_s64(vreinterpretq_s64_u64(vaddq_u64(m.low, m.high))));
  }
  static float64x2_t first_of(const T* p, int n) {
    if (n >= 2) return vld1q_f64(p);
    return n > 0 ? vld1q_lane_f64(p, vdupq_n_f64(0), 0) : vdupq_n_f64(0);
  }
  static void store_first_of(T* p, float64x2_t x, int n) {
    if (n >= 2) return vst1q_f64(p, x);
    if (n > 0) vst1q_lane_f64(p, x, 0);
  }
  static float64x2_t added(float64x2_t x, int64x2_t n) {
    return vreinterpretq_f64_s64(vaddq_s64(vreinterpretq_s64_f64(x), vshlq_n_s64(n, 52)));
  }
  static float64x2_t power(int64x2_t n) {
    return vreinterpretq_f64_s64(vshlq_n_s64(vaddq_s64(n, vdupq_n_s64(1023)), 52));
  }
  static float64x2_t scaled(float64x2_t x, int64x2_t whole) {
    const int64x2_t half = vshrq_n_s64(whole, 1);
    return vmulq_f64(vmulq_f64(x, power(half)), power(vsubq_s64(whole, half)));
  }
  static float64x2_t exponent(float64x2_t x) {
    const int64x2_t bits = vshrq_n_s64(vreinterpretq_s64_f64(x), 52);
    return vcvtq_f64_s64(vsubq_s64(bits, vdupq_n_s64(1023)));
  }
  static float64x2_t mantissa(float64x2_t x) {
    return vbslq_f64(vdupq_n_u64(0x000fffffffffffff), x, vdupq_n_f64(1));
  }
};

/// The halves of a register in double precision.
inline VectorF64::Reg low_half(VectorF32::Reg x) {
  return {vcvt_f64_f32(vget_low_f32(x.low)), vcvt_high_f64_f32(x.low)};
}
inline VectorF64::Reg high_half(VectorF32::Reg x) {
  return {vcvt_f64_f32(vget_low_f32(x.high)), vcvt_high_f64_f32(x.high)};
}

/// The rows of 4 × 4 numbers become their columns.
inline void transpose(float32x4_t& a, float32x4_t& b, float32x4_t& c, float32x4_t& d) {
  const float64x2_t ab_even = vreinterpretq_f64_f32(vtrn1q_f32(a, b));
  const float64x2_t ab_odd = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
  const float64x2_t cd_even = vreinterpretq_f64_f32(vtrn1q_f32(c, d));
  const float64x2_t cd_odd = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
  a = vreinterpretq_f32_f64(vzip1q_f64(ab_even, cd_even));
  b = vreinterpretq_f32_f64(vzip1q_f64(ab_odd, cd_odd));
  c = vreinterpretq_f32_f64(vzip2q_f64(ab_even, cd_even));
  d = vreinterpretq_f32_f64(vzip2q_f64(ab_odd, cd_odd));
}

/// Rows to columns: the quarters of the square, of which two change places.
inline void transpose(VectorF32::Reg (&r)[VectorF32::width]) {
  transpose(r[0].low, r[1].low, r[2].low, r[3].low);
  transpose(r[4].high, r[5].high, r[6].high, r[7].high);
  transpose(r[0].high, r[1].high, r[2].high, r[3].high);
  transpose(r[4].low, r[5].low, r[6].low, r[7].low);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const float32x4_t right = r[i].high;
    r[i].high = r[i + 4].low;
    r[i + 4].low = right;
  }
}

inline void transpose(VectorF64::Reg (&r)[VectorF64::width]) {
  const VectorF64::Reg a = r[0], b = r[1], c = r[2], d = r[3];
  r[0] = {vzip1q_f64(a.low, b.low), vzip1q_f64(c.low, d.low)};
  r[1] = {vzip2q_f64(a.low, b.low), vzip2q_f64(c.low, d.low)};
  r[2] = {vzip1q_f64(a.high, b.high), vzip1q_f64(c.high, d.high)};
  r[3] = {vzip2q_f64(a.high, b.high), vzip2q_f64(c.high, d.high)};
}

} // namespace
} // namespace mha
