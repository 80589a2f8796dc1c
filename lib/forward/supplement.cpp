#include <mha/forward/supplement.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/feed_forward.hpp>
#include <mha/tensor/storage.hpp>

#include <cmath>
#include <numbers>

namespace mha {

template <class T> void SupplementOf<T>::prepare(const Usage& usage) {
  norm_.prepare(usage);
  for (const auto& [in_use, map] : {std::pair(&in_, &part_.in), {&out_, &part_.out}})
    in_use->prepare(Routine::fma, map->W, layer_.kept.get(), usage.rows, usage.threads,
                    usage.shared);
}

template <class T>
void SupplementOf<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Matrix<T> y = rows[to];
  const Matrix<const T> embed = rows[Stage::layer_embed];
  const std::size_t width = part_.in.out();
  Buffer<T> sum, product, inner;
  const Matrix<T> h{sum.room_for(y.rows * y.cols), y.rows, y.cols, y.cols},
      x{product.room_for(y.rows * width), y.rows, width, width},
      z{inner.room_for(y.rows * width), y.rows, width, width};
  add_rows<T>(rows[Stage::residual], rows[from], h);
  in_.multiply(h, 0, x);
  activate<T>(part_.activation, x, z);
  for (std::size_t t = 0; t < z.rows; ++t)
    for (std::size_t i = 0; i < width; ++i) z.row(t)[i] *= embed.row(t)[i];
  out_.multiply(z, 0, y);
  if (norm_.present()) norm_.apply(rows, to, to);
}

namespace {

/// `norm` is in T.
template <class T> void embed_rows(const LayerEmbedding& e, const Norm& norm, std::size_t first,
                                   const std::vector<int>& ids, Matrix<const T> x, Matrix<T> y) {
  WeightInUse<T> map;
  const Tensor W = columns_when_read(e.map.W, first, e.width);
  map.prepare(Routine::fma, W, nullptr, x.rows, 1, false);
  map.multiply(x, 0, y);
  const T to_unit = static_cast<T>(1 / std::sqrt(static_cast<double>(x.cols))),
          scale = static_cast<T>(e.scale), half = static_cast<T>(1 / std::numbers::sqrt2);
  for (std::size_t t = 0; t < y.rows; ++t) row_scale(y.row(t), y.cols, to_unit);
  norm_rows<T>(norm, y, y);
  std::vector<T> row(e.width);
  const std::size_t columns = e.table.shape()[1], element = size_of(e.table.dtype());
  for (std::size_t t = 0; t < y.rows; ++t) {
    const std::size_t at = static_cast<std::size_t>(ids[t]) * columns + first;
    convert(e.table.raw() + at * element, e.table.dtype(), reinterpret_cast<std::byte*>(row.data()),
            dtype_of<T>, e.width);
    for (std::size_t i = 0; i < e.width; ++i) y.row(t)[i] = (y.row(t)[i] + scale * row[i]) * half;
  }
}

} // namespace

Tensor embed_for_layer(const LayerEmbedding& embedding, std::size_t number,
                       const std::vector<std::vector<int>>& ids, const Tensor& embedded,
                       const std::vector<std::size_t>& lengths) {
  const std::size_t B = ids.size(), T = ids.front().size(), d = embedded.shape().back(),
                    width = embedding.width;
  const DType dtype = embedded.dtype();
  const Norm norm = in_precision(embedding.norm, dtype);
  Tensor all = sparse_zeros(dtype, {B, T, width});
  for (std::size_t b = 0; b < B; ++b) {
    std::vector<int> own = ids[b];
    if (!lengths.empty()) own.resize(lengths[b]);
    for (std::size_t t = 0; t < own.size(); ++t)
      if (own[t] < 0 || static_cast<std::size_t>(own[t]) >= embedding.table.shape()[0])
        fail("token {} of the text is {}: the layers' embeddings have {} to {}", t, own[t], 0,
             embedding.table.shape()[0] - 1);
    const auto in = [&](auto zero) {
      using Number = decltype(zero);
      embed_rows<Number>(
          embedding, norm, number * width, own,
          {embedded.as<Number>().data() + b * T * d, own.size(), d, d},
          {all.as_mutable<Number>().data() + b * T * width, own.size(), width, width});
    };
    dtype == DType::f64 ? in(double()) : in(float());
  }
  return all;
}

template class SupplementOf<float>;
template class SupplementOf<double>;

} // namespace mha
