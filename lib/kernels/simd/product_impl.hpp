#pragma once
// One tile of a product, and packing, for any width of register: included once by each unit of an
// instruction set, after its vectors (V below). Everything has internal linkage.

#include <immintrin.h>

#include <cstddef>

namespace mha {
namespace {

/// How many rows of b are fetched into the first cache ahead of their use: measured, from 4 to 32.
constexpr std::size_t lines_ahead = 12;

/// rows × (cols · width) of C in registers; the last register of each row may be masked. Without
/// the pragmas GCC unrolls too late to keep the sums out of memory.
template <class V, std::size_t rows, std::size_t cols, bool masked>
inline void tile_of(std::size_t depth, const typename V::T* a, std::size_t a_stride,
                    const typename V::T* b, std::size_t b_stride, typename V::T* c,
                    std::size_t c_stride, typename V::Mask last, bool accumulate) {
  using Reg = typename V::Reg;
  constexpr std::size_t width = V::width;
  const auto read = [last](const typename V::T* p, std::size_t j) {
    (void)last;
    if constexpr (masked)
      return j + 1 == cols ? V::load(p + j * width, last) : V::load(p + j * width);
    else
      return V::load(p + j * width);
  };
  Reg sum[rows][cols];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < cols; ++j)
      sum[i][j] = accumulate ? read(c + i * c_stride, j) : V::fill(0);
  for (std::size_t p = 0; p < depth; ++p, ++a, b += b_stride) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < cols; ++j) // columns of a plain b lie too far apart to be foreseen
      __builtin_prefetch(b + lines_ahead * b_stride + j * width, 0, 3);
    Reg line[cols];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < cols; ++j) line[j] = read(b, j);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < rows; ++i) {
      const Reg factor = V::fill(a[i * a_stride]);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < cols; ++j) sum[i][j] = V::fma(factor, line[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < cols; ++j)
      if (masked && j + 1 == cols)
        V::store(c + i * c_stride + j * width, sum[i][j], last);
      else
        V::store(c + i * c_stride + j * width, sum[i][j]);
}

/// Finds the tile with that many rows: the count is a template's parameter, so that the sums stay
/// in registers.
template <class V, std::size_t most_rows, std::size_t cols, bool masked>
inline void tile_with_rows(std::size_t rows, std::size_t depth, const typename V::T* a,
                           std::size_t a_stride, const typename V::T* b, std::size_t b_stride,
                           typename V::T* c, std::size_t c_stride, typename V::Mask last,
                           bool accumulate) {
  if (rows == most_rows)
    tile_of<V, most_rows, cols, masked>(depth, a, a_stride, b, b_stride, c, c_stride, last,
                                        accumulate);
  else if constexpr (most_rows > 1)
    tile_with_rows<V, most_rows - 1, cols, masked>(rows, depth, a, a_stride, b, b_stride, c,
                                                   c_stride, last, accumulate);
}

/// Finds the tile with that many registers a row, the last one masked.
template <class V, std::size_t most_rows, std::size_t regs>
inline void tile_with_cols(std::size_t rows, std::size_t cols, std::size_t depth,
                           const typename V::T* a, std::size_t a_stride, const typename V::T* b,
                           std::size_t b_stride, typename V::T* c, std::size_t c_stride,
                           bool accumulate) {
  if (regs == 1 || cols > (regs - 1) * V::width)
    tile_with_rows<V, most_rows, regs, true>(rows, depth, a, a_stride, b, b_stride, c, c_stride,
                                             V::first(cols - (regs - 1) * V::width), accumulate);
  else if constexpr (regs > 1)
    tile_with_cols<V, most_rows, regs - 1>(rows, cols, depth, a, a_stride, b, b_stride, c, c_stride,
                                           accumulate);
}

/// Kernels<T>::strip: `regs` registers a row, as many rows at once as the register file holds
/// beside a line of b. Heads are 64, 80, 96, 128 wide: four registers of AVX-512, two of AVX2 leave
/// little over.
template <class V, std::size_t most_rows, std::size_t regs>
void strip(std::size_t rows, std::size_t cols, std::size_t depth, const typename V::T* a,
           std::size_t a_stride, const typename V::T* b, std::size_t b_stride, typename V::T* c,
           std::size_t c_stride, bool accumulate) {
  if (cols == regs * V::width) {
    for (; rows >= most_rows;
         rows -= most_rows, a += most_rows * a_stride, c += most_rows * c_stride)
      tile_of<V, most_rows, regs, false>(depth, a, a_stride, b, b_stride, c, c_stride, V::first(0),
                                         accumulate);
    if (rows > 0)
      tile_with_rows<V, most_rows, regs, false>(rows, depth, a, a_stride, b, b_stride, c, c_stride,
                                                V::first(0), accumulate);
    return;
  }
  for (std::size_t i = 0; i < rows; i += most_rows)
    tile_with_cols<V, most_rows, regs>(rows - i < most_rows ? rows - i : most_rows, cols, depth,
                                       a + i * a_stride, a_stride, b, b_stride, c + i * c_stride,
                                       c_stride, accumulate);
}

/// The 4 × 4 elements at source, transposed to panel.
inline void transpose_4x4(const float* source, std::size_t stride, float* panel,
                          std::size_t width) {
  const __m128 a = _mm_loadu_ps(source), b = _mm_loadu_ps(source + stride);
  const __m128 c = _mm_loadu_ps(source + 2 * stride), d = _mm_loadu_ps(source + 3 * stride);
  const __m128 ab_low = _mm_unpacklo_ps(a, b), ab_high = _mm_unpackhi_ps(a, b);
  const __m128 cd_low = _mm_unpacklo_ps(c, d), cd_high = _mm_unpackhi_ps(c, d);
  _mm_storeu_ps(panel, _mm_movelh_ps(ab_low, cd_low));
  _mm_storeu_ps(panel + width, _mm_movehl_ps(cd_low, ab_low));
  _mm_storeu_ps(panel + 2 * width, _mm_movelh_ps(ab_high, cd_high));
  _mm_storeu_ps(panel + 3 * width, _mm_movehl_ps(cd_high, ab_high));
}

inline void transpose_4x4(const double* source, std::size_t stride, double* panel,
                          std::size_t width) {
  const __m256d a = _mm256_loadu_pd(source), b = _mm256_loadu_pd(source + stride);
  const __m256d c = _mm256_loadu_pd(source + 2 * stride), d = _mm256_loadu_pd(source + 3 * stride);
  const __m256d ab_low = _mm256_unpacklo_pd(a, b), ab_high = _mm256_unpackhi_pd(a, b);
  const __m256d cd_low = _mm256_unpacklo_pd(c, d), cd_high = _mm256_unpackhi_pd(c, d);
  _mm256_storeu_pd(panel, _mm256_permute2f128_pd(ab_low, cd_low, 0x20));
  _mm256_storeu_pd(panel + width, _mm256_permute2f128_pd(ab_high, cd_high, 0x20));
  _mm256_storeu_pd(panel + 2 * width, _mm256_permute2f128_pd(ab_low, cd_low, 0x31));
  _mm256_storeu_pd(panel + 3 * width, _mm256_permute2f128_pd(ab_high, cd_high, 0x31));
}

/// Kernels<T>::pack_transposed
template <class T> void pack_transposed(const T* source, std::size_t stride, std::size_t rows,
                                        std::size_t depth, T* panel, std::size_t width) {
  const std::size_t even_rows = rows - rows % 4, even_depth = depth - depth % 4;
  for (std::size_t i = 0; i < even_rows; i += 4) {
    const T* four = source + i * stride;
    for (std::size_t p = 0; p < even_depth; p += 4)
      transpose_4x4(four + p, stride, panel + p * width + i, width);
    for (std::size_t p = even_depth; p < depth; ++p)
      for (std::size_t k = 0; k < 4; ++k) panel[p * width + i + k] = four[k * stride + p];
  }
  for (std::size_t i = even_rows; i < rows; ++i)
    for (std::size_t p = 0; p < depth; ++p) panel[p * width + i] = source[i * stride + p];
}

/// Kernels<T>::pack
template <class V> void pack(const typename V::T* source, std::size_t stride, std::size_t depth,
                             std::size_t cols, typename V::T* panel, std::size_t width) {
  const std::size_t even = cols - cols % V::width;
  const typename V::Mask last = V::first(cols - even);
  for (std::size_t p = 0; p < depth; ++p, source += stride, panel += width) {
    for (std::size_t j = 0; j < even; j += V::width) V::store(panel + j, V::load(source + j));
    if (even < cols) V::store(panel + even, V::load(source + even, last), last);
  }
}

/// Kernels<T>::multiply_adds: chains enough to hide the latency of one.
template <class V> std::size_t multiply_adds(std::size_t rounds, typename V::T* sums) {
  using Reg = typename V::Reg;
  constexpr std::size_t chains = 12;
  const Reg factor = V::fill(typename V::T(0.5)), one = V::fill(1);
  Reg sum[chains];
#pragma GCC unroll 12
  for (std::size_t i = 0; i < chains; ++i) sum[i] = V::fill(static_cast<typename V::T>(i));
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < chains; ++i) sum[i] = V::fma(sum[i], factor, one);
  }
#pragma GCC unroll 12
  for (std::size_t i = 1; i < chains; ++i) sum[0] = V::add(sum[0], sum[i]);
  V::store(sums, sum[0]);
  return rounds * chains * V::width;
}

} // namespace
} // namespace mha
