// The kernels for AVX2 with FMA: 16 registers, so tiles of 6 × 2 registers.

#if defined(__AVX2__)

#include <mha/kernels/simd/vector_avx2.hpp>

#include <mha/kernels/simd/product_impl.hpp>
#include <mha/kernels/simd/rows_impl.hpp>

namespace mha {

constexpr Kernels<float> avx2_f32 = table<VectorF32, 6, 2>("avx2");
constexpr Kernels<double> avx2_f64 = table<VectorF64, 6, 2>("avx2");

} // namespace mha

#endif
