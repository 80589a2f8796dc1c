#include <mha/kernels/packed.hpp>

#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/tiled.hpp>
#include <mha/system/error.hpp>
#include <mha/system/parallel.hpp>

#include <type_traits>

namespace mha {

namespace {

/// From how many rows on packing pays: plain columns can be read in place nearly as fast.
std::size_t fewest_rows(bool transposed) {
  return transposed ? 32 : 192;
}

} // namespace

template <class T>
bool PackedMatrix<T>::reads_in_place(Routine routine, bool transposed, std::size_t rows) {
  return routine == Routine::fma && rows < fewest_rows(transposed);
}

template <class T>
PackedMatrix<T>::PackedMatrix(Routine routine, Matrix<const T> b, bool transposed, std::size_t rows,
                              std::size_t threads)
    : routine_(routine), b_(b), transposed_(transposed) {
  if constexpr (std::is_same_v<T, float>)
    if (routine == Routine::bf16x3) split_ = Bf16x3Matrix(b, transposed, rows, threads);
  if (routine != Routine::fma || reads_in_place(routine, transposed, rows)) return;
  const Kernels<T>& set = kernels<T>();
  const std::size_t depth = transposed ? b.cols : b.rows, cols = transposed ? b.rows : b.cols;
  packed_.room_for(packed_size(set, depth, cols));
  const std::size_t strips = (cols + set.strip_cols - 1) / set.strip_cols, together = 4;
  parallel_for((strips + together - 1) / together, threads, [&](std::size_t i) {
    pack_whole(set, b_, transposed_, i * together, together, packed_.data());
  });
}

template <class T> void PackedMatrix<T>::multiply(Matrix<const T> a, std::size_t first_row,
                                                  std::size_t first_col, Matrix<T> c,
                                                  bool accumulate) const {
  const std::size_t depth = transposed_ ? b_.cols : b_.rows, cols = transposed_ ? b_.rows : b_.cols;
  if (c.rows != a.rows || first_row + a.cols > depth || first_col + c.cols > cols)
    fail("cannot multiply {} × {} by {} × {} from ({}, {}) on into {} × {}", a.rows, a.cols, depth,
         cols, first_row, first_col, c.rows, c.cols);
  if constexpr (std::is_same_v<T, float>)
    if (routine_ == Routine::bf16x3) return split_.multiply(a, first_row, first_col, c, accumulate);
  if (packed_.data())
    return multiply_packed(kernels<T>(), a, packed_.data(), depth, first_row, first_col, c,
                           accumulate);
  multiply_tiled(kernels<T>(), a, part_of(b_, transposed_, first_row, a.cols, first_col, c.cols),
                 transposed_, c, accumulate);
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;

} // namespace mha
