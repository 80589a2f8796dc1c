#pragma once
// Conversion between halves and floats by the processor's instructions. The unit that is compiled
// for these instructions includes this header, so it must not use the standard library.

#include <cstddef>
#include <cstdint>

namespace mha {

/// Converts n numbers. Rounds floats to the nearest half, ties to even; NaN stays NaN.
struct HalfKernels {
  void (*narrow)(const float* from, std::uint16_t* to, std::size_t n);
  void (*widen)(const std::uint16_t* from, float* to, std::size_t n);
};

#if defined(__x86_64__)
extern const HalfKernels avx2_halves;
#elif defined(__aarch64__)
extern const HalfKernels neon_halves;
#endif

} // namespace mha
