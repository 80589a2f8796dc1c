// Halves by AArch64's conversions, which all its processors have.

#if defined(__aarch64__)

#include <mha/tensor/halves.hpp>

#include <arm_neon.h>

namespace mha {
namespace {

void narrow_neon(const float* from, std::uint16_t* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + i))));
  for (; i < n; ++i)
    to[i] = vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(from[i]))), 0);
}

void widen_neon(const std::uint16_t* from, float* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
  for (; i < n; ++i)
    to[i] = vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(from[i]))), 0);
}

} // namespace

constexpr HalfKernels neon_halves = {narrow_neon, widen_neon};

} // namespace mha

#endif
