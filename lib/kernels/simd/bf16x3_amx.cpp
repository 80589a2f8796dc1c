// Split products on the tile registers of AMX, 16 × 64 bytes each: four hold 32 × 32 sums, two a
// part of the left cell, two a part of the right one.

#if defined(__x86_64__) // Clang 14 and GCC name the macro of AMX differently

#include <mha/kernels/bf16x3_kernels.hpp>

#include <immintrin.h>

namespace mha {
namespace {

constexpr std::size_t half_size = cell_side * cell_side / 2, lanes = 16;

/// 32 numbers as three parts of 32 bfloat16 each: part 0 is the nearest bfloat16, part 1 that of
/// what remains, part 2 all that is left (8 + 8 + 8 bits). Lane i holds number i, and i + 16 above.
struct Parts {
  __m512i part[cell_parts];
};

inline __m512 bfloat16_nearest(__m512 x) {
  const __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  return _mm512_castsi512_ps(
      _mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

/// The upper halves of two numbers' bits, side by side.
inline __m512i upper_halves(__m512 low, __m512 high) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(_mm512_castps_si512(low), 16),
                                 _mm512_castps_si512(high));
}

inline Parts split(__m512 low, __m512 high) {
  Parts parts;
  for (std::size_t p = 0; p + 1 < cell_parts; ++p) {
    const __m512 nearest_low = bfloat16_nearest(low), nearest_high = bfloat16_nearest(high);
    parts.part[p] = upper_halves(nearest_low, nearest_high);
    low = _mm512_sub_ps(low, nearest_low), high = _mm512_sub_ps(high, nearest_high);
  }
  parts.part[cell_parts - 1] = upper_halves(low, high); // what is left has 8 bits
  return parts;
}

/// The largest magnitudes so far, as integers, which NaN is the largest of.
inline __m512i largest(__m512i so_far, __m512 x) {
  const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  return _mm512_max_epu32(so_far, magnitude);
}

inline __mmask16 reach(__m512i magnitudes, float limit) {
  return _mm512_cmpge_epu32_mask(magnitudes, _mm512_castps_si512(_mm512_set1_ps(limit)));
}

/// Whether a row whose largest magnitudes these are can be split.
inline bool row_fits(__m512i magnitudes, float least) {
  return reach(magnitudes, bf16x3_most) == 0 &&
         (reach(magnitudes, least) != 0 || _mm512_test_epi32_mask(magnitudes, magnitudes) == 0);
}

inline __mmask16 first(std::size_t n) {
  return static_cast<__mmask16>(n >= lanes ? 0xffffU : (1U << n) - 1U);
}

inline std::size_t beyond(std::size_t n, std::size_t first) {
  return n > first ? n - first : 0;
}

inline std::uint16_t* half_of(std::uint16_t* cells, std::size_t chunk, std::size_t part,
                              std::size_t half) {
  return cells + chunk * cell_size + (2 * part + half) * half_size;
}

/// Up to 32 rows of m as the lines of cells; zeros for those missing, in the second half only if it
/// is wanted. Whether they can be split.
bool pack_rows(const float* m, std::size_t stride, std::size_t rows, std::size_t depth, float least,
               bool both_halves, std::uint16_t* cells) {
  bool fits = true;
  for (std::size_t i = 0; i < (both_halves ? cell_side : lanes); ++i) {
    __m512i magnitudes = _mm512_setzero_si512();
    const float* const row = m + (i < rows ? i : 0) * stride;
    for (std::size_t k = 0; k < depth; k += cell_side) {
      const std::size_t rest = i < rows ? depth - k : 0;
      const __m512 low = _mm512_maskz_loadu_ps(first(rest), row + k);
      const __m512 high = _mm512_maskz_loadu_ps(first(beyond(rest, lanes)), row + k + lanes);
      magnitudes = largest(largest(magnitudes, low), high);
      const Parts parts = split(low, high);
      for (std::size_t p = 0; p < cell_parts; ++p)
        _mm512_storeu_si512(half_of(cells, k / cell_side, p, i / lanes) + i % lanes * cell_side,
                            parts.part[p]);
    }
    fits = row_fits(magnitudes, least) && fits;
  }
  return fits;
}

bool pack_left(const float* a, std::size_t stride, std::size_t rows, std::size_t depth,
               std::uint16_t* cells) {
  return pack_rows(a, stride, rows, depth, bf16x3_least_left, rows > lanes, cells);
}

/// Lines of 16 × 16 pairs become columns.
inline void transpose(const std::uint16_t* from, std::uint16_t* to) {
  const __m512i lines =
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32(static_cast<int>(lanes)));
  for (std::size_t k = 0; k < lanes; ++k)
    _mm512_storeu_si512(to + k * cell_side, _mm512_i32gather_epi32(lines, from + 2 * k, 4));
}

bool pack_right_transposed(const float* b, std::size_t stride, std::size_t depth, std::size_t cols,
                           std::uint16_t* cells) {
  const bool fits = pack_rows(b, stride, cols, depth, bf16x3_least_right, true, cells);
  alignas(64) std::uint16_t lines[half_size];
  for (std::size_t k = 0; k < depth; k += cell_side)
    for (std::size_t h = 0; h < 2 * cell_parts; ++h) {
      std::uint16_t* const half = half_of(cells, k / cell_side, 0, h);
      for (std::size_t i = 0; i < half_size; ++i) lines[i] = half[i];
      transpose(lines, half);
    }
  return fits;
}

bool pack_right(const float* b, std::size_t stride, std::size_t depth, std::size_t cols,
                std::uint16_t* cells) {
  bool fits = true;
  for (std::size_t half = 0; half < 2; ++half) {
    const __mmask16 columns = first(beyond(cols, half * lanes));
    __m512i magnitudes = _mm512_setzero_si512();
    for (std::size_t k = 0; k < depth; k += cell_side)
      for (std::size_t i = 0; i < lanes; ++i) {
        const auto row = [&](std::size_t r) {
          return _mm512_maskz_loadu_ps(r < depth ? columns : __mmask16{0},
                                       b + r * stride + half * lanes);
        };
        const __m512 low = row(k + i), high = row(k + i + lanes);
        magnitudes = largest(largest(magnitudes, low), high);
        const Parts parts = split(low, high);
        for (std::size_t p = 0; p < cell_parts; ++p)
          _mm512_storeu_si512(half_of(cells, k / cell_side, p, half) + i * cell_side,
                              parts.part[p]);
      }
    const __mmask16 small = static_cast<__mmask16>(_mm512_test_epi32_mask(magnitudes, magnitudes) &
                                                   ~reach(magnitudes, bf16x3_least_right));
    fits = fits && small == 0 && reach(magnitudes, bf16x3_most) == 0;
  }
  return fits;
}

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  static constexpr TileShapes shapes;
  _tile_loadconfig(&shapes);
}

void end() {
  _tile_release();
}

// Registers 0 … 3 hold the sums, [half of the rows][half of the columns].
template <bool both> inline void load_left(const std::uint16_t* cell, std::size_t part) {
  _tile_loadd(4, cell + 2 * part * half_size, 64);
  if constexpr (both) _tile_loadd(5, cell + (2 * part + 1) * half_size, 64);
}
inline void load_right(const std::uint16_t* cell, std::size_t part) {
  _tile_loadd(6, cell + 2 * part * half_size, 64);
  _tile_loadd(7, cell + (2 * part + 1) * half_size, 64);
}
template <bool both> inline void multiply_parts() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (both) {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

/// A load of a tile waits for the last of its 16 lines, and cells come from the second cache: while
/// one pair is multiplied, the next comes closer, half by half. Where another process shares the
/// core this saves a tenth to a fifth of the time.
template <std::size_t right_parts>
inline void fetch_next(const std::uint16_t* left, const std::uint16_t* right, std::size_t half) {
  const std::size_t first = cell_size + half * half_size;
  for (std::size_t line = 0; line < half_size; line += cell_side) {
    _mm_prefetch(reinterpret_cast<const char*>(left + first + line), _MM_HINT_T0);
    if (half < 2 * right_parts)
      _mm_prefetch(reinterpret_cast<const char*>(right + first + line), _MM_HINT_T0);
  }
}

/// Six of the nine products of parts: the other three are below the last bit of float32. Those of
/// right parts that are zeros are left out.
template <bool both, std::size_t right_parts> inline void
multiply_cells(const std::uint16_t* left, const std::uint16_t* right, std::size_t cells) {
  for (std::size_t i = 0; i < cells; ++i, left += cell_size, right += cell_size) {
    const auto fetch = [&](std::size_t half) { fetch_next<right_parts>(left, right, half); };
    load_left<both>(left, 2);
    load_right(right, 0);
    fetch(0);
    multiply_parts<both>();
    load_left<both>(left, 1);
    fetch(1);
    multiply_parts<both>();
    fetch(2);
    if constexpr (right_parts > 1) {
      load_right(right, 1);
      multiply_parts<both>();
    }
    load_left<both>(left, 0);
    fetch(3);
    multiply_parts<both>();
    fetch(4);
    if constexpr (right_parts > 2) {
      load_right(right, 2);
      multiply_parts<both>();
    }
    fetch(5);
    if constexpr (right_parts > 1) {
      load_right(right, 0);
      multiply_parts<both>();
    }
  }
}

template <bool both> void multiply_cells(const std::uint16_t* left, const std::uint16_t* right,
                                         std::size_t cells, std::size_t right_parts) {
  if (right_parts == 1)
    multiply_cells<both, 1>(left, right, cells);
  else if (right_parts == 2)
    multiply_cells<both, 2>(left, right, cells);
  else
    multiply_cells<both, cell_parts>(left, right, cells);
}

void multiply_whole(const std::uint16_t* left, const std::uint16_t* right, std::size_t cells,
                    std::size_t right_parts, bool both, float* c, std::size_t c_stride,
                    bool accumulate) {
  const std::size_t line = c_stride * sizeof(float);
  float* const below = c + lanes * c_stride;
  // The compiler does not know which memory the tile intrinsics read.
  __asm__ volatile("" ::: "memory");
  if (accumulate) {
    _tile_loadd(0, c, line);
    _tile_loadd(1, c + lanes, line);
    if (both) {
      _tile_loadd(2, below, line);
      _tile_loadd(3, below + lanes, line);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  if (both)
    multiply_cells<true>(left, right, cells, right_parts);
  else
    multiply_cells<false>(left, right, cells, right_parts);
  _tile_stored(0, c, line);
  _tile_stored(1, c + lanes, line);
  if (both) {
    _tile_stored(2, below, line);
    _tile_stored(3, below + lanes, line);
  }
}

void copy_rows(const float* from, std::size_t from_stride, float* to, std::size_t to_stride,
               std::size_t rows, std::size_t cols) {
  const __mmask16 left = first(cols), right = first(beyond(cols, lanes));
  for (std::size_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    _mm512_mask_storeu_ps(to, left, _mm512_maskz_loadu_ps(left, from));
    _mm512_mask_storeu_ps(to + lanes, right, _mm512_maskz_loadu_ps(right, from + lanes));
  }
}

void multiply(const std::uint16_t* left, const std::uint16_t* right, std::size_t cells,
              std::size_t right_parts, std::size_t rows, std::size_t cols, float* c,
              std::size_t c_stride, bool accumulate) {
  if (cols == cell_side && (rows == cell_side || rows == lanes))
    return multiply_whole(left, right, cells, right_parts, rows > lanes, c, c_stride, accumulate);
  alignas(64) float sums[cell_side * cell_side] = {};
  if (accumulate) copy_rows(c, c_stride, sums, cell_side, rows, cols);
  multiply_whole(left, right, cells, right_parts, rows > lanes, sums, cell_side, accumulate);
  copy_rows(sums, cell_side, c, c_stride, rows, cols);
}

std::size_t multiply_adds(std::size_t rounds, float* sums) {
  begin();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t product = 0; product < 6; ++product) multiply_parts<true>();
  alignas(64) float sum[lanes * lanes];
  _tile_stored(0, sum, 64);
  __asm__ volatile("" : : "r"(sum) : "memory");
  for (std::size_t i = 0; i < lanes; ++i) sums[i] = sum[i];
  end();
  return rounds * cell_side * cell_side * cell_side;
}

} // namespace

constexpr Bf16x3Kernels amx_bf16x3{pack_left, pack_right, pack_right_transposed, begin,
                                   end,       multiply,   multiply_adds};

} // namespace mha

#endif
