#pragma once
// One tile of a product, and packing, for any width of register: included once by each unit of an
// instruction set, after its vectors (V below). Everything has internal linkage.

#include <mha/kernels/simd/table.hpp>

#include <cstddef>

namespace mha {
namespace {

/// How many rows of b are fetched into the first cache ahead of their use: measured, from 4 to 32.
constexpr std::size_t lines_ahead = 12;

/// Lines of memory that are fetched into the second cache while others are multiplied with.
struct LinesAhead {
  const char* at = nullptr;
  std::size_t of_block = 0; ///< how many in each `block` of steps along the depth
  static constexpr std::size_t block = 8;

  void fetch() {
    for (std::size_t i = 0; i < of_block; ++i, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

/// rows × (cols · width) of C in registers; the last register of each row may be masked. Without
/// the pragmas GCC unrolls too late to keep the sums out of memory.
template <class V, std::size_t rows, std::size_t cols, bool masked>
inline void tile_of(std::size_t depth, const typename V::T* a, std::size_t a_stride,
                    const typename V::T* b, std::size_t b_stride, typename V::T* c,
                    std::size_t c_stride, typename V::Mask last, bool accumulate,
                    LinesAhead& ahead) {
  using Reg = typename V::Reg;
  constexpr std::size_t width = V::width;
  constexpr std::size_t register_bytes = width * sizeof(typename V::T);
  constexpr std::size_t of_line = register_bytes < 64 ? 64 / register_bytes : 1; // registers
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
    // Rows of a plain b are too far apart for the hardware to prefetch.
#pragma GCC unroll 8
    for (std::size_t j = 0; j < cols; j += of_line)
      __builtin_prefetch(b + lines_ahead * b_stride + j * width, 0, 3);
    if (p % LinesAhead::block == 0) ahead.fetch();
    Reg line[cols];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < cols; ++j) line[j] = read(b, j);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < rows; ++i) {
      const typename V::Factor factor = V::factor(a + i * a_stride);
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
                           bool accumulate, LinesAhead& ahead) {
  if (rows == most_rows)
    tile_of<V, most_rows, cols, masked>(depth, a, a_stride, b, b_stride, c, c_stride, last,
                                        accumulate, ahead);
  else if constexpr (most_rows > 1)
    tile_with_rows<V, most_rows - 1, cols, masked>(rows, depth, a, a_stride, b, b_stride, c,
                                                   c_stride, last, accumulate, ahead);
}

/// Finds the tile with that many registers a row, the last one masked.
template <class V, std::size_t most_rows, std::size_t regs>
inline void tile_with_cols(std::size_t rows, std::size_t cols, std::size_t depth,
                           const typename V::T* a, std::size_t a_stride, const typename V::T* b,
                           std::size_t b_stride, typename V::T* c, std::size_t c_stride,
                           bool accumulate) {
  LinesAhead none;
  if (regs == 1 || cols > (regs - 1) * V::width)
    tile_with_rows<V, most_rows, regs, true>(rows, depth, a, a_stride, b, b_stride, c, c_stride,
                                             V::first(cols - (regs - 1) * V::width), accumulate,
                                             none);
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
           std::size_t c_stride, bool accumulate, const typename V::T* next) {
  if (cols == regs * V::width) {
    LinesAhead ahead;
    if (next && rows > most_rows) {
      const std::size_t tiles = (rows + most_rows - 1) / most_rows;
      const std::size_t lines = LinesAhead::block * cols * sizeof(*next) / 64;
      ahead = {reinterpret_cast<const char*>(next), (lines + tiles - 1) / tiles};
    }
    for (; rows >= most_rows;
         rows -= most_rows, a += most_rows * a_stride, c += most_rows * c_stride)
      tile_of<V, most_rows, regs, false>(depth, a, a_stride, b, b_stride, c, c_stride, V::first(0),
                                         accumulate, ahead);
    if (rows > 0)
      tile_with_rows<V, most_rows, regs, false>(rows, depth, a, a_stride, b, b_stride, c, c_stride,
                                                V::first(0), accumulate, ahead);
    return;
  }
  for (std::size_t i = 0; i < rows; i += most_rows)
    tile_with_cols<V, most_rows, regs>(rows - i < most_rows ? rows - i : most_rows, cols, depth,
                                       a + i * a_stride, a_stride, b, b_stride, c + i * c_stride,
                                       c_stride, accumulate);
}

/// The square of `rows` × `cols` elements at source, at most V::width of each, transposed; zeros
/// outside.
template <class V> inline void load_transposed(const typename V::T* source, std::size_t stride,
                                               std::size_t rows, std::size_t cols,
                                               typename V::Reg (&square)[V::width]) {
  if (rows == V::width && cols == V::width) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < V::width; ++i) square[i] = V::load(source + i * stride);
  } else {
    const typename V::Mask there = V::first(cols);
    for (std::size_t i = 0; i < V::width; ++i)
      square[i] = i < rows ? V::load(source + i * stride, there) : V::fill(0);
  }
  transpose(square);
}

/// Fetches rows of b into the first cache in memory order, some lines a call:
/// squares are read across the rows, in which order memory gives half as much.
template <class T> struct RowsAhead {
  const T* row;
  std::size_t stride, depth;
  std::size_t at = 0; ///< in the row

  void fetch(std::size_t elements) {
    constexpr std::size_t line = 64 / sizeof(T);
    for (std::size_t i = 0; i < elements; i += line) {
      __builtin_prefetch(row + at, 0, 3);
      at += line;
      if (at < depth) continue;
      at = 0;
      row += stride;
    }
  }
};

/// rows × V::width of C for a transposed b, of which `cols` are there: each square of b is
/// transposed in registers and used at once. The sums add in the order of tile_of.
template <class V, std::size_t rows>
inline void transposed_tile(std::size_t cols, std::size_t depth, const typename V::T* a,
                            std::size_t a_stride, const typename V::T* b, std::size_t b_stride,
                            typename V::T* c, std::size_t c_stride, bool accumulate) {
  using Reg = typename V::Reg;
  constexpr std::size_t width = V::width;
  const typename V::Mask there = V::first(cols);
  Reg sum[rows], square[width];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i)
    sum[i] = accumulate ? V::load(c + i * c_stride, there) : V::fill(0);
  RowsAhead<typename V::T> next{b + width * b_stride, b_stride, depth};
  std::size_t p = 0;
  for (; p + width <= depth; p += width) {
    next.fetch(width * width);
    load_transposed<V>(b + p, b_stride, cols, width, square);
#pragma GCC unroll 16
    for (std::size_t j = 0; j < width; ++j)
#pragma GCC unroll 8
      for (std::size_t i = 0; i < rows; ++i)
        sum[i] = V::fma(V::factor(a + i * a_stride + p + j), square[j], sum[i]);
  }
  if (p < depth) {
    load_transposed<V>(b + p, b_stride, cols, depth - p, square);
    for (std::size_t j = 0; p + j < depth; ++j)
#pragma GCC unroll 8
      for (std::size_t i = 0; i < rows; ++i)
        sum[i] = V::fma(V::factor(a + i * a_stride + p + j), square[j], sum[i]);
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i)
    if (cols == width)
      V::store(c + i * c_stride, sum[i]);
    else
      V::store(c + i * c_stride, sum[i], there);
}

/// Kernels<T>::few_rows_transposed, for at most `most_rows`.
template <class V, std::size_t most_rows = few_rows>
void few_rows_transposed(std::size_t rows, std::size_t cols, std::size_t depth,
                         const typename V::T* a, std::size_t a_stride, const typename V::T* b,
                         std::size_t b_stride, typename V::T* c, std::size_t c_stride,
                         bool accumulate) {
  if constexpr (most_rows > 1)
    if (rows < most_rows)
      return few_rows_transposed<V, most_rows - 1>(rows, cols, depth, a, a_stride, b, b_stride, c,
                                                   c_stride, accumulate);
  for (std::size_t j = 0; j < cols; j += V::width)
    transposed_tile<V, most_rows>(cols - j < V::width ? cols - j : V::width, depth, a, a_stride,
                                  b + j * b_stride, b_stride, c + j, c_stride, accumulate);
}

/// Kernels<T>::pack_transposed
template <class V> void pack_transposed(const typename V::T* source, std::size_t stride,
                                        std::size_t rows, std::size_t depth, typename V::T* panel,
                                        std::size_t width) {
  typename V::Reg square[V::width];
  for (std::size_t i = 0; i < rows; i += V::width) {
    const std::size_t n = rows - i < V::width ? rows - i : V::width;
    const typename V::Mask there = V::first(n);
    std::size_t p = 0;
    for (; p + V::width <= depth; p += V::width) {
      load_transposed<V>(source + i * stride + p, stride, n, V::width, square);
#pragma GCC unroll 16
      for (std::size_t j = 0; j < V::width; ++j)
        if (n == V::width)
          V::store(panel + (p + j) * width + i, square[j]);
        else
          V::store(panel + (p + j) * width + i, square[j], there);
    }
    if (p == depth) continue;
    load_transposed<V>(source + i * stride + p, stride, n, depth - p, square);
    for (std::size_t j = 0; p + j < depth; ++j)
      V::store(panel + (p + j) * width + i, square[j], there);
  }
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

/// Kernels<T>::pack_transposed_bf16. A strip is used at once, so the next one is fetched meanwhile.
template <class V> void pack_transposed_bf16(const std::uint16_t* source, std::size_t stride,
                                             std::size_t rows, std::size_t depth,
                                             typename V::T* panel, std::size_t width) {
  constexpr std::size_t step = V::width;
  const std::size_t even_rows = rows - rows % step, even_depth = depth - depth % step;
  typename V::Reg square[step];
  RowsAhead<std::uint16_t> next{source + rows * stride, stride, depth};
  for (std::size_t i = 0; i < even_rows; i += step)
    for (std::size_t p = 0; p < even_depth; p += step) {
      next.fetch(step * step);
#pragma GCC unroll 16
      for (std::size_t j = 0; j < step; ++j)
        square[j] = V::load_bf16(source + (i + j) * stride + p);
      transpose(square);
#pragma GCC unroll 16
      for (std::size_t j = 0; j < step; ++j) V::store(panel + (p + j) * width + i, square[j]);
    }
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t p = i < even_rows ? even_depth : 0; p < depth; ++p)
      panel[p * width + i] = from_bf16(source[i * stride + p]);
}

/// Kernels<T>::multiply_adds: chains enough to hide the latency of one, through the summand as in a
/// product: AArch64's instruction overwrites it, and another one would have to be copied each time.
template <class V> std::size_t multiply_adds(std::size_t rounds, typename V::T* sums) {
  using Reg = typename V::Reg;
  constexpr std::size_t chains = 12;
  const Reg left = V::fill(typename V::T(0.5)), right = V::fill(typename V::T(0.75));
  Reg sum[chains];
#pragma GCC unroll 12
  for (std::size_t i = 0; i < chains; ++i) sum[i] = V::fill(static_cast<typename V::T>(i));
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < chains; ++i) sum[i] = V::fma(left, right, sum[i]);
  }
#pragma GCC unroll 12
  for (std::size_t i = 1; i < chains; ++i) sum[0] = V::add(sum[0], sum[i]);
  V::store(sums, sum[0]);
  return rounds * chains * V::width;
}

} // namespace
} // namespace mha
