// The kernels for AVX-512: 32 registers, so tiles of 6 × 4 registers.

#if defined(__AVX512F__)

#include "kernels/vector_avx512.hpp"

#include "kernels/product_impl.hpp"
#include "kernels/rows_impl.hpp"

namespace mha {

constexpr Kernels<float> avx512_f32 = table<VectorF32, 6, 4>("avx512");
constexpr Kernels<double> avx512_f64 = table<VectorF64, 6, 4>("avx512");

} // namespace mha

#endif
