#include <mha/forward/projection.hpp>

#include <mha/forward/norm.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/schedule/token_stages.hpp>

#include <algorithm>

namespace mha {

template <class T> Projection<T>::Projection(Routine routine, const Tensor& W, const Tensor& bias,
                                             std::size_t rows, std::size_t threads)
    : W_(W), bias_(bias) {
  if (!W.empty() && rows > 0)
    right_ = PackedMatrix<T>(routine, matrix_of<T>(W), false, rows, threads);
}

template <class T> void Projection<T>::multiply(Matrix<const T> x, std::size_t width,
                                                HeadRange heads, Matrix<T> y) const {
  constexpr std::size_t step = PackedMatrix<T>::column_step;
  const std::size_t begin = heads.first * width / step * step;
  const std::size_t end = std::min((heads.last * width + step - 1) / step * step, y.cols);
  if (begin >= end) return;
  const Matrix<T> columns = y.cols_from(begin, end - begin);
  if (W_.empty())
    for (std::size_t i = 0; i < x.rows; ++i)
      std::copy_n(x.row(i) + begin, columns.cols, columns.row(i));
  else
    right_.multiply(x, 0, begin, columns);
  if (bias_.empty()) return;
  for (std::size_t i = 0; i < y.rows; ++i)
    row_add(columns.row(i), bias_.as<T>().data() + begin, columns.cols);
}

HeadRange projected(HeadRange heads, std::size_t all, const Tensor& norm, std::size_t width) {
  return !norm.empty() && norm.count() == all * width ? HeadRange{0, all} : heads;
}

template <class T> void norm_heads(const Layer& layer, Matrix<const T> x, const Tensor& weight,
                                   HeadRange heads, Matrix<T> y) {
  const std::size_t n = weight.count();
  if (n == x.cols) heads = {0, 1};
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t part = heads.first; part < heads.last; ++part)
      rms_norm(x.row(i) + part * n, weight.as<T>().data(), n, layer.settings.qk_norm_eps,
               layer.settings.qk_norm_one_plus, y.row(i) + part * n);
}

template <class T> void rotate_heads(const Layer& layer, const RotaryTable<T>& table,
                                     Matrix<const T> x, std::size_t first, HeadRange heads,
                                     Matrix<T> y) {
  const std::size_t d_k = layer.dims.d_k, pairs = table.pairs;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t h = heads.first; h < heads.last; ++h)
      rotate(x.row(i) + h * d_k, table.cosines.data() + (first + i) * pairs,
             table.sines.data() + (first + i) * pairs, d_k, 2 * pairs,
             layer.settings.rope == Rope::interleaved, y.row(i) + h * d_k);
}

template class Projection<float>;
template class Projection<double>;
template void norm_heads(const Layer&, Matrix<const float>, const Tensor&, HeadRange,
                         Matrix<float>);
template void norm_heads(const Layer&, Matrix<const double>, const Tensor&, HeadRange,
                         Matrix<double>);
template void rotate_heads(const Layer&, const RotaryTable<float>&, Matrix<const float>,
                           std::size_t, HeadRange, Matrix<float>);
template void rotate_heads(const Layer&, const RotaryTable<double>&, Matrix<const double>,
                           std::size_t, HeadRange, Matrix<double>);

} // namespace mha
