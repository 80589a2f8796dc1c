#include "kernels/tiled.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace mha {
namespace {

// The blocks. A strip of op(b), `most_depth` × tile_cols, is packed and stays close while the tiles
// run down the rows; `block_rows` × `most_depth` of a, read where it is, and `packed_bytes` of
// strips share the second cache. A greater depth was faster than strips that fit the first cache: c
// is read and written once for each depth.
constexpr std::size_t most_depth = 512;
constexpr std::size_t block_rows = 256;
constexpr std::size_t packed_bytes = 1 << 20;

/// Memory for packed strips, kept by each thread for its next product.
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

template <class T> void clear(Matrix<T> c) {
  for (std::size_t i = 0; i < c.rows; ++i) std::fill_n(c.row(i), c.cols, T(0));
}

/// Packs op(b), whose element (p, j) is b's (j, p) where it is transposed, strip after strip.
template <class T>
void pack_strips(const Kernels<T>& kernels, Matrix<const T> b, bool transposed, T* packed) {
  const std::size_t depth = transposed ? b.cols : b.rows, cols = transposed ? b.rows : b.cols;
  for (std::size_t j = 0; j < cols; j += kernels.tile_cols) {
    const std::size_t width = std::min(kernels.tile_cols, cols - j);
    if (transposed)
      kernels.pack_transposed(b.row(j), b.stride, width, depth, packed + j * depth,
                              kernels.tile_cols);
    else
      kernels.pack(b.data + j, b.stride, depth, width, packed + j * depth, kernels.tile_cols);
  }
}

} // namespace

template <class T> void multiply_tiled(const Kernels<T>& kernels, Matrix<const T> a,
                                       Matrix<const T> b, bool transposed, Matrix<T> c,
                                       bool accumulate) {
  const std::size_t m = c.rows, n = c.cols, k = a.cols;
  const std::size_t tile_rows = kernels.tile_rows, tile_cols = kernels.tile_cols;
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) clear(c);
    return;
  }

  // Packing pays where several tiles share a strip; a transposed b cannot be read as it is.
  const bool pack = transposed || m > 2 * tile_rows;
  const std::size_t depth = std::min(k, most_depth);
  const std::size_t strips = std::max<std::size_t>(1, packed_bytes / sizeof(T) / depth / tile_cols);
  const std::size_t width = pack ? std::min(n, strips * tile_cols) : n;
  thread_local Scratch<T> scratch;
  T* const packed = pack ? scratch.take((width + tile_cols) * depth) : nullptr;

  for (std::size_t j0 = 0; j0 < n; j0 += width)
    for (std::size_t p0 = 0; p0 < k; p0 += depth) {
      const std::size_t jn = std::min(width, n - j0), pn = std::min(depth, k - p0);
      if (pack)
        pack_strips(kernels,
                    transposed ? b.rows_from(j0, jn).cols_from(p0, pn)
                               : b.rows_from(p0, pn).cols_from(j0, jn),
                    transposed, packed);
      for (std::size_t i0 = 0; i0 < m; i0 += block_rows) {
        const std::size_t end = std::min(m, i0 + block_rows);
        for (std::size_t j = 0; j < jn; j += tile_cols) {
          const T* const strip = pack ? packed + j * pn : b.row(p0) + j0 + j;
          const std::size_t strip_stride = pack ? tile_cols : b.stride;
          const std::size_t cols = std::min(tile_cols, jn - j);
          for (std::size_t i = i0; i < end; i += tile_rows)
            kernels.tile(std::min(tile_rows, end - i), cols, pn, a.row(i) + p0, a.stride, strip,
                         strip_stride, c.row(i) + j0 + j, c.stride, accumulate || p0 > 0);
        }
      }
    }
}

template void multiply_tiled(const Kernels<float>&, Matrix<const float>, Matrix<const float>, bool,
                             Matrix<float>, bool);
template void multiply_tiled(const Kernels<double>&, Matrix<const double>, Matrix<const double>,
                             bool, Matrix<double>, bool);

} // namespace mha
