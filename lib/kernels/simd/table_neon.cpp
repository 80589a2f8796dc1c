// The kernels for AArch64, all of whose processors have NEON with fused multiply-adds: 32 registers
// of 128 bits, so tiles of 6 × 2 pairs of them.

#if defined(__aarch64__)

#include <mha/kernels/simd/vector_neon.hpp>

#include <mha/kernels/simd/product_impl.hpp>
#include <mha/kernels/simd/rows_impl.hpp>

namespace mha {

constexpr Kernels<float> neon_f32 = table<VectorF32, 6, 2>("neon");
constexpr Kernels<double> neon_f64 = table<VectorF64, 6, 2>("neon");

} // namespace mha

#endif
