#include <mha/forward/supplement.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/feed_forward.hpp>

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

template class SupplementOf<float>;
template class SupplementOf<double>;

} // namespace mha
