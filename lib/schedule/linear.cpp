#include <mha/schedule/linear.hpp>

#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/kernels/tiled.hpp>
#include <mha/schedule/memory.hpp>

#include <algorithm>

namespace mha {

namespace {

std::size_t index_of(Routine routine) {
  return routine == Routine::fma ? 0 : 1;
}

/// Columns of a weight that are multiplied with at once: all of them, or, where they are read or
/// converted first, as many as half a second cache holds until they are packed, in tiles.
template <class T> std::size_t columns_together(const Tensor& W, std::size_t all) {
  constexpr std::size_t step = PackedMatrix<T>::column_step, converted_bytes = 1 << 18;
  if (W.dtype() == dtype_of<T> && !reads_from_file(W)) return all;
  const std::size_t depth = std::max<std::size_t>(1, W.shape()[0]);
  return std::max(step, converted_bytes / sizeof(T) / depth / step * step);
}

template <class T> void add_bias(Matrix<T> y, const Tensor& b, std::size_t first) {
  if (b.empty()) return;
  for (std::size_t t = 0; t < y.rows; ++t) row_add(y.row(t), b.as<T>().data() + first, y.cols);
}

} // namespace

template <class T> void WeightInUse<T>::prepare(Routine routine, const Tensor& W, KeptWeights* kept,
                                                std::size_t rows, std::size_t threads,
                                                bool shared) {
  routine_ = routine, W_ = &W;
  packed_ = kept ? kept->packed<T>(routine, W, threads) : nullptr;
  if (!packed_ && shared)
    packed_ = std::make_shared<const PackedWeight<T>>(routine, W, rows, threads);
}

template <class T>
void WeightInUse<T>::multiply(Matrix<const T> x, std::size_t first, Matrix<T> y) const {
  if (packed_) return packed_->matrix().multiply(x, 0, first, y);
  // Kept by the thread: blocks of less than 256 KiB would go back to the system after each product.
  thread_local Buffer<std::byte> read;
  thread_local Buffer<T> memory;
  const std::size_t together = columns_together<T>(*W_, y.cols);
  for (std::size_t j = 0; j < y.cols; j += together) {
    const std::size_t n = std::min(together, y.cols - j);
    const Tensor W = columns_for_one_use(*W_, first + j, n, read);
    multiply_with(W, x, y.cols_from(j, n), memory);
  }
}

template <class T> void WeightInUse<T>::multiply_with(const Tensor& W, Matrix<const T> x,
                                                      Matrix<T> y, Buffer<T>& memory) const {
  if constexpr (std::is_same_v<T, float>)
    if (routine_ == Routine::fma && x.rows <= most_bf16_rows)
      if (const auto bits = bf16_columns(W)) return multiply_bf16(kernels<float>(), x, *bits, y);
  const auto [b, transposed] = stored_columns<T>(W, 0, y.cols, memory);
  PackedMatrix<T>(routine_, b, transposed, x.rows).multiply(x, 0, 0, y);
}

template <class T> void Linear<T>::prepare(const Usage& usage) {
  bias_in_use_ = convert(bias_, dtype_of<T>);
  if (W_.empty() || usage.rows == 0) return;
  start_reading(W_);
  for (const Routine routine : {Routine::fma, Routine::bf16x3})
    if (std::ranges::any_of(usage.batches,
                            [&](std::size_t batch) { return routines_.of(batch) == routine; }))
      in_use_[index_of(routine)].prepare(routine, W_, layer_.kept.get(), usage.rows, usage.threads,
                                         usage.shared);
}

template <class T> void Linear<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  constexpr std::size_t step = PackedMatrix<T>::column_step;
  const Matrix<const T> x = X_ && !X_->empty() ? rows.of(*X_) : Matrix<const T>(rows[from]);
  const Matrix<T> y = rows[to];
  const std::size_t first = rows.columns().first / step * step;
  const std::size_t last = std::min((rows.columns().last + step - 1) / step * step, y.cols);
  if (first >= last) return;
  const Matrix<T> part = y.cols_from(first, last - first);
  if (W_.empty())
    for (std::size_t i = 0; i < x.rows; ++i) std::copy_n(x.row(i) + first, part.cols, part.row(i));
  else
    in_use_[index_of(routines_.of(rows.batch()))].multiply(x, first, part);
  add_bias(part, bias_in_use_, first);
  finish(part);
}

template <class T> void Linear<T>::finish(Matrix<T> y) const {
  if (limit_ > 0)
    for (std::size_t i = 0; i < y.rows; ++i) row_clip(y.row(i), y.cols, limit_);
}

template <class T>
void Linear<T>::of_head(const Place& place, Matrix<const T> x, Matrix<T> y) const {
  const std::size_t width = x.cols;
  if (!W_.empty()) {
    const Matrix<const T> of_this = matrix_of<T>(W_).rows_from(place.head * width, width);
    return PackedMatrix<T>(routines_.of(place.batch), of_this, false, x.rows).multiply(x, 0, 0, y);
  }
  for (std::size_t i = 0; i < x.rows; ++i) {
    std::fill_n(y.row(i), y.cols, T(0));
    std::copy_n(x.row(i), width, y.row(i) + place.head * width);
  }
}

template class WeightInUse<float>;
template class WeightInUse<double>;
template class Linear<float>;
template class Linear<double>;

} // namespace mha
