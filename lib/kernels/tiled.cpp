#include "kernels/tiled.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace mha {
namespace {

// The blocks: a strip of b, `depth` × tile_cols, stays in the first cache while the tiles run down
// the rows; a block of a, `block_rows` × `depth`, and the packed strips stay in the second.
constexpr std::size_t strip_bytes = 36 << 10;
constexpr std::size_t most_depth = 512;
constexpr std::size_t block_rows = 256;
constexpr std::size_t packed_b_bytes = 1 << 20;

/// Memory for packed blocks, kept by each thread for its next product.
template <class T> class Scratch {
public:
  /// At least n elements, at the start of a cache line; what was there before is lost.
  T* take(std::size_t n) {
    if (n > size_) {
      const std::size_t line = 64, bytes = (n * sizeof(T) + line - 1) / line * line;
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<T*>(std::aligned_alloc(line, bytes)));
      if (!memory_) throw std::bad_alloc();
      size_ = n;
    }
    return memory_.get();
  }

private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t size_ = 0;
};

std::size_t rounded_up(std::size_t n, std::size_t step) {
  return (n + step - 1) / step * step;
}

template <class T> void clear(Matrix<T> c) {
  for (std::size_t i = 0; i < c.rows; ++i) std::fill_n(c.row(i), c.cols, T(0));
}

} // namespace

template <class T> void multiply_tiled(const Kernels<T>& kernels, Matrix<const T> a,
                                       Matrix<const T> b, bool transposed, Matrix<T> c,
                                       bool accumulate) {
  const std::size_t m = c.rows, n = c.cols, k = a.cols;
  const std::size_t tile_rows = kernels.tile_rows, tile_cols = kernels.tile_cols;
  if (m == 0 || n == 0) return;
  if (k == 0 && !accumulate) clear(c);

  const std::size_t most_k =
      std::min(k, std::min(most_depth, strip_bytes / (tile_cols * sizeof(T))));
  const std::size_t most_m = std::min(m, block_rows);
  // Packing b pays when several tiles share it.
  const bool pack_b = transposed || m > 2 * tile_rows;
  std::size_t most_n = n;
  if (pack_b) {
    const std::size_t strips =
        packed_b_bytes / sizeof(T) / std::max<std::size_t>(1, most_k) / tile_cols;
    most_n = std::min(n, std::max<std::size_t>(1, strips) * tile_cols);
  }

  thread_local Scratch<T> scratch_a, scratch_b;
  T* const packed_a = scratch_a.take(rounded_up(most_m, tile_rows) * most_k);
  T* const packed_b = pack_b ? scratch_b.take(rounded_up(most_n, tile_cols) * most_k) : nullptr;

  for (std::size_t j0 = 0; j0 < n; j0 += most_n) {
    const std::size_t jn = std::min(most_n, n - j0);
    for (std::size_t p0 = 0; p0 < k; p0 += most_k) {
      const std::size_t pn = std::min(most_k, k - p0);
      if (pack_b)
        for (std::size_t j = 0; j < jn; j += tile_cols) {
          const std::size_t cols = std::min(tile_cols, jn - j);
          if (transposed)
            kernels.pack_transposed(b.row(j0 + j) + p0, b.stride, cols, pn, packed_b + j * pn,
                                    tile_cols);
          else
            kernels.pack(b.row(p0) + j0 + j, b.stride, pn, cols, packed_b + j * pn, tile_cols);
        }
      for (std::size_t i0 = 0; i0 < m; i0 += most_m) {
        const std::size_t in = std::min(most_m, m - i0);
        for (std::size_t i = 0; i < in; i += tile_rows)
          kernels.pack_transposed(a.row(i0 + i) + p0, a.stride, std::min(tile_rows, in - i), pn,
                                  packed_a + i * pn, tile_rows);
        for (std::size_t j = 0; j < jn; j += tile_cols) {
          const T* const strip = pack_b ? packed_b + j * pn : b.row(p0) + j0 + j;
          for (std::size_t i = 0; i < in; i += tile_rows)
            kernels.tile(std::min(tile_rows, in - i), std::min(tile_cols, jn - j), pn,
                         packed_a + i * pn, tile_rows, strip, pack_b ? tile_cols : b.stride,
                         c.row(i0 + i) + j0 + j, c.stride, accumulate || p0 > 0);
        }
      }
    }
  }
}

template void multiply_tiled(const Kernels<float>&, Matrix<const float>, Matrix<const float>, bool,
                             Matrix<float>, bool);
template void multiply_tiled(const Kernels<double>&, Matrix<const double>, Matrix<const double>,
                             bool, Matrix<double>, bool);

} // namespace mha
