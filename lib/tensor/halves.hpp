#pragma once
// Halves to floats and back by instructions of their own. Included by the unit that is compiled for
// them: nothing of the standard library's.

#include <cstddef>
#include <cstdint>

namespace mha {

/// Halves to floats and back, as kernels/halves.hpp says.
struct HalfKernels {
  void (*narrow)(const float* from, std::uint16_t* to, std::size_t n);
  void (*widen)(const std::uint16_t* from, float* to, std::size_t n);
};

#if defined(__x86_64__)
extern const HalfKernels avx2_halves;
#endif

} // namespace mha
