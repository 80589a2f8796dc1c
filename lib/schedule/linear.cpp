#include <mha/schedule/linear.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/schedule/memory.hpp>

#include <algorithm>

namespace mha {

namespace {

std::size_t index_of(Routine routine) {
  return routine == Routine::ours ? 0 : 1;
}

} // namespace

template <class T> void Linear<T>::prepare(std::size_t rows, std::size_t threads) {
  if (W_.empty() || rows == 0) return;
  for (const Routine routine : {Routine::ours, Routine::bf16x3})
    if (routines_.count(routine) > 0)
      packed_[index_of(routine)] = PackedMatrix<T>(routine, matrix_of<T>(W_), false, rows, threads);
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
    packed_[index_of(routines_.of(rows.batch()))].multiply(x, 0, first, part);
  for (std::size_t i = 0; i < y.rows; ++i) {
    if (!bias_.empty()) row_add(part.row(i), bias_.as<T>().data() + first, part.cols);
    if (limit_ > 0) row_clip(part.row(i), part.cols, limit_);
  }
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

template class Linear<float>;
template class Linear<double>;

} // namespace mha
