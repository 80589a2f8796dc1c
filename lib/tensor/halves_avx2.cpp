// Halves by F16C, which every processor with AVX2 has.

#if defined(__AVX2__)

#include <mha/tensor/halves.hpp>

#include <immintrin.h>

namespace mha {
namespace {

constexpr std::size_t width = 8;

__m128i narrowed(__m256 x) {
  return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

void narrow_f16c(const float* from, std::uint16_t* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + width <= n; i += width)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), narrowed(_mm256_loadu_ps(from + i)));
  for (; i < n; ++i)
    to[i] = static_cast<std::uint16_t>(
        _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(from[i]), _MM_FROUND_TO_NEAREST_INT), 0));
}

void widen_f16c(const std::uint16_t* from, float* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + width <= n; i += width)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; ++i) to[i] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(from[i])));
}

} // namespace

constexpr HalfKernels avx2_halves = {narrow_f16c, widen_f16c};

} // namespace mha

#endif
