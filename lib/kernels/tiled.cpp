#include <mha/kernels/tiled.hpp>

#include <mha/system/memory.hpp>

#include <algorithm>

namespace mha {
namespace {

// The blocks. A strip of op(b), `most_depth` × strip_cols, is packed and stays close while the
// tiles run down the rows; `block_rows` × `most_depth` of a, read where it is, and `packed_bytes`
// of strips share the second cache. A greater depth was faster than strips that fit the first
// cache: c is read and written once for each depth.
constexpr std::size_t most_depth = 512;
constexpr std::size_t block_rows = most_bf16_rows;
// Few rows of a use each element of b few times: b is read in memory order, as many
// of its rows at a time as the first cache holds beside the next ones. Measured, from 8 to 512.
constexpr std::size_t few_rows_depth = 16;
constexpr std::size_t packed_bytes = 1 << 20;
// Of strips that one block of rows uses once, soon after they are packed.
constexpr std::size_t used_once_bytes = 1 << 16;

template <class T> void clear(Matrix<T> c) {
  for (std::size_t i = 0; i < c.rows; ++i) std::fill_n(c.row(i), c.cols, T(0));
}

/// Packs op(b), whose element (p, j) is b's (j, p) where it is transposed, strip after strip.
template <class T>
void pack_strips(const Kernels<T>& kernels, Matrix<const T> b, bool transposed, T* packed) {
  const std::size_t depth = transposed ? b.cols : b.rows, cols = transposed ? b.rows : b.cols;
  for (std::size_t j = 0; j < cols; j += kernels.strip_cols) {
    const std::size_t width = std::min(kernels.strip_cols, cols - j);
    if (transposed)
      kernels.pack_transposed(b.row(j), b.stride, width, depth, packed + j * depth,
                              kernels.strip_cols);
    else
      kernels.pack(b.data + j, b.stride, depth, width, packed + j * depth, kernels.strip_cols);
  }
}

/// c = a · b, or c += a · b, for strips of b `distance` elements apart, `line` from row to
/// row. Strips that come from memory, not from a cache, are fetched one ahead, and `after` is the
/// one after these: the first tile of rows would wait for each number of its strip, which the other
/// tiles find in the cache.
template <class T> void multiply_strips(const Kernels<T>& kernels, Matrix<const T> a,
                                        const T* strips, std::size_t distance, std::size_t line,
                                        Matrix<T> c, bool accumulate, const T* after = nullptr) {
  for (std::size_t i0 = 0; i0 < c.rows; i0 += block_rows) {
    const std::size_t end = std::min(c.rows, i0 + block_rows);
    for (std::size_t j = 0; j < c.cols; j += kernels.strip_cols) {
      const T* const strip = strips + j / kernels.strip_cols * distance;
      const std::size_t cols = std::min(kernels.strip_cols, c.cols - j);
      const T* const next = after && j + kernels.strip_cols < c.cols ? strip + distance : after;
      kernels.strip(end - i0, cols, a.cols, a.row(i0), a.stride, strip, line, c.row(i0) + j,
                    c.stride, accumulate, next);
    }
  }
}

} // namespace

template <class T> void multiply_tiled(const Kernels<T>& kernels, Matrix<const T> a,
                                       Matrix<const T> b, bool transposed, Matrix<T> c,
                                       bool accumulate) {
  const std::size_t m = c.rows, n = c.cols, k = a.cols;
  const std::size_t strip_cols = kernels.strip_cols;
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) clear(c);
    return;
  }

  if (transposed && m <= few_rows)
    return kernels.few_rows_transposed(m, n, k, a.data, a.stride, b.data, b.stride, c.data,
                                       c.stride, accumulate);

  // Packing pays where many tiles share a strip; other rows of a transposed b cannot be read as
  // they are.
  const bool pack = transposed || m > 48;
  const std::size_t depth = std::min(k, m > few_rows ? most_depth : few_rows_depth);
  const std::size_t bytes = m > block_rows ? packed_bytes : used_once_bytes;
  const std::size_t strips = std::max<std::size_t>(1, bytes / sizeof(T) / depth / strip_cols);
  const std::size_t width = pack ? std::min(n, strips * strip_cols) : n;
  Buffer<T> scratch; // packed strips
  T* const packed = pack ? scratch.room_for((width + strip_cols) * depth) : nullptr;

  for (std::size_t j0 = 0; j0 < n; j0 += width)
    for (std::size_t p0 = 0; p0 < k; p0 += depth) {
      const std::size_t jn = std::min(width, n - j0), pn = std::min(depth, k - p0);
      const Matrix<const T> left = a.cols_from(p0, pn);
      const Matrix<T> result = c.cols_from(j0, jn);
      if (pack) {
        pack_strips(kernels, part_of(b, transposed, p0, pn, j0, jn), transposed, packed);
        multiply_strips(kernels, left, packed, strip_cols * pn, strip_cols, result,
                        accumulate || p0 > 0);
      } else {
        multiply_strips(kernels, left, b.row(p0) + j0, strip_cols, b.stride, result,
                        accumulate || p0 > 0);
      }
    }
}

void multiply_bf16(const Kernels<float>& kernels, Matrix<const float> a,
                   Matrix<const std::uint16_t> b, Matrix<float> c) {
  const std::size_t line = kernels.strip_cols, k = a.cols;
  if (k == 0) return clear(c);
  Buffer<float> scratch;
  float* const packed = scratch.room_for(line * most_depth);
  for (std::size_t j = 0; j < c.cols; j += line) {
    const std::size_t n = std::min(line, c.cols - j);
    for (std::size_t p = 0; p < k; p += most_depth) {
      const std::size_t depth = std::min(most_depth, k - p);
      kernels.pack_transposed_bf16(b.row(j) + p, b.stride, n, depth, packed, line);
      multiply_strips(kernels, a.cols_from(p, depth), packed, line * depth, line, c.cols_from(j, n),
                      p > 0);
    }
  }
}

template <class T>
std::size_t packed_size(const Kernels<T>& kernels, std::size_t depth, std::size_t cols) {
  return (cols + kernels.strip_cols - 1) / kernels.strip_cols * kernels.strip_cols * depth;
}

template <class T> void pack_whole(const Kernels<T>& kernels, Matrix<const T> b, bool transposed,
                                   std::size_t first_strip, std::size_t strips, T* packed) {
  const std::size_t depth = transposed ? b.cols : b.rows, cols = transposed ? b.rows : b.cols;
  const std::size_t first = first_strip * kernels.strip_cols;
  const std::size_t n = std::min(cols - first, strips * kernels.strip_cols);
  pack_strips(kernels, transposed ? b.rows_from(first, n) : b.cols_from(first, n), transposed,
              packed + first * depth);
}

template <class T> void multiply_packed(const Kernels<T>& kernels, Matrix<const T> a,
                                        const T* packed, std::size_t depth, std::size_t first_row,
                                        std::size_t first_col, Matrix<T> c, bool accumulate) {
  if (a.cols == 0 && !accumulate) clear(c);
  const std::size_t line = kernels.strip_cols, strips = (c.cols + line - 1) / line;
  const T* const first = packed + first_col * depth + first_row * line;
  for (std::size_t p0 = 0; p0 < a.cols; p0 += most_depth) {
    const std::size_t pn = std::min(most_depth, a.cols - p0);
    const T* const after =
        p0 + pn < a.cols ? first + (p0 + pn) * line : packed + (first_col + strips * line) * depth;
    multiply_strips(kernels, a.cols_from(p0, pn), first + p0 * line, line * depth, line, c,
                    accumulate || p0 > 0, after);
  }
}

template void multiply_tiled(const Kernels<float>&, Matrix<const float>, Matrix<const float>, bool,
                             Matrix<float>, bool);
template void multiply_tiled(const Kernels<double>&, Matrix<const double>, Matrix<const double>,
                             bool, Matrix<double>, bool);
template std::size_t packed_size(const Kernels<float>&, std::size_t, std::size_t);
template std::size_t packed_size(const Kernels<double>&, std::size_t, std::size_t);
template void pack_whole(const Kernels<float>&, Matrix<const float>, bool, std::size_t, std::size_t,
                         float*);
template void pack_whole(const Kernels<double>&, Matrix<const double>, bool, std::size_t,
                         std::size_t, double*);
template void multiply_packed(const Kernels<float>&, Matrix<const float>, const float*, std::size_t,
                              std::size_t, std::size_t, Matrix<float>, bool);
template void multiply_packed(const Kernels<double>&, Matrix<const double>, const double*,
                              std::size_t, std::size_t, std::size_t, Matrix<double>, bool);

} // namespace mha
