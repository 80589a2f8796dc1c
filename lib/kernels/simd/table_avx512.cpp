// The kernels for AVX-512: 32 registers, so tiles of 6 × 4 registers.

#if defined(__AVX512F__)

#include <mha/kernels/simd/vector_avx512.hpp>

#include <mha/kernels/simd/product_impl.hpp>
#include <mha/kernels/simd/rows_impl.hpp>

namespace mha {

constexpr Kernels<float> avx512_f32 = table<VectorF32, 6, 4>("avx512");
constexpr Kernels<double> avx512_f64 = table<VectorF64, 6, 4>("avx512");

} // namespace mha

#endif
