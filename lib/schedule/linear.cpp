#include <mha/schedule/linear.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/schedule/memory.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>

namespace mha {

namespace {

std::size_t index_of(Routine routine) {
  return routine == Routine::fma ? 0 : 1;
}

/// Columns of a weight that one task multiplies with: enough tasks for the threads, and few enough
/// that each has more to multiply than to convert.
std::size_t columns_together(std::size_t columns, std::size_t threads) {
  constexpr std::size_t step = PackedMatrix<float>::column_step;
  const std::size_t pieces = 4 * std::max<std::size_t>(threads, 1);
  const std::size_t even = (columns / pieces + step - 1) / step * step;
  return std::clamp<std::size_t>(even, step, 512);
}

/// Rows that one task multiplies: enough tasks for the threads, and enough rows for each part of
/// the weight that is fetched: no more than are split at once.
std::size_t rows_together(std::size_t rows, std::size_t threads) {
  constexpr std::size_t step = bf16x3_rows, most = bf16x3_block_rows;
  const std::size_t even = (rows / (2 * std::max<std::size_t>(threads, 1)) + step - 1) / step;
  return std::clamp<std::size_t>(even * step, 2 * step, most);
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
  Buffer<T> memory;
  const auto [b, transposed] = stored_columns<T>(*W_, first, y.cols, memory);
  PackedMatrix<T>(routine_, b, transposed, x.rows).multiply(x, 0, 0, y);
}

template <class T> void Linear<T>::prepare(std::size_t rows, std::size_t threads, bool shared) {
  if (W_.empty() || rows == 0) return;
  for (const Routine routine : {Routine::fma, Routine::bf16x3})
    if (routines_.count(routine) > 0)
      in_use_[index_of(routine)].prepare(routine, W_, layer_.kept.get(), rows, threads, shared);
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
  add_bias(part, bias_, first);
  if (limit_ > 0)
    for (std::size_t i = 0; i < y.rows; ++i) row_clip(part.row(i), part.cols, limit_);
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

template <class T> void multiply_linear(Routine routine, Matrix<const T> x, const LinearMap& linear,
                                        Matrix<T> y, std::size_t threads, KeptWeights* kept) {
  const Tensor b = linear.b.empty() ? Tensor() : convert(linear.b, dtype_of<T>);
  // Rows that are split are split once for all columns of W, which are packed ahead.
  const bool by_rows = routine == Routine::bf16x3 && x.rows > bf16x3_as_read;
  WeightInUse<T> W;
  W.prepare(routine, linear.W, kept, x.rows, threads, by_rows);
  const std::size_t out = linear.out();
  const std::size_t count = by_rows ? x.rows : out;
  const std::size_t together =
      by_rows ? rows_together(x.rows, threads) : columns_together(out, threads);
  parallel_for((count + together - 1) / together, threads, [&](std::size_t i) {
    const std::size_t first = i * together, n = std::min(together, count - first);
    const std::size_t column = by_rows ? 0 : first;
    const Matrix<T> to = by_rows ? y.rows_from(first, n) : y.cols_from(first, n);
    W.multiply(by_rows ? x.rows_from(first, n) : x, column, to);
    add_bias(to, b, column);
  });
}

template class WeightInUse<float>;
template class WeightInUse<double>;
template class Linear<float>;
template class Linear<double>;
template void multiply_linear(Routine, Matrix<const float>, const LinearMap&, Matrix<float>,
                              std::size_t, KeptWeights*);
template void multiply_linear(Routine, Matrix<const double>, const LinearMap&, Matrix<double>,
                              std::size_t, KeptWeights*);

} // namespace mha
