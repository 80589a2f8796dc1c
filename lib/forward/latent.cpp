#include <mha/forward/latent.hpp>

#include <mha/kernels/rows.hpp>

#include <algorithm>

namespace mha {

template <class T> void Compressed<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  W_.apply(rows, from, to);
  const Matrix<T> c = rows[to];
  const T* weight = norm_.empty() ? nullptr : norm_.as<T>().data();
  rms_norm<T>(c, weight, layer_.settings.qk_norm_eps, false, c);
}

template <class T> void JoinedKeys<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  W_k_.apply(rows, from, to);
  if (shared_ == 0) return;
  const std::size_t d_k = layer_.dims.d_k;
  const Matrix<const T> k_pe = rows[Stage::k_pe];
  const Matrix<T> k = rows[to];
  for (std::size_t j = 0; j < k.rows; ++j)
    for (std::size_t h = rows.heads().first; h < rows.heads().last; ++h) {
      T* part = k.row(j) + (h + 1) * d_k - shared_;
      std::copy_n(k_pe.row(j), shared_, part);
      if (limit_ > 0) row_clip(part, shared_, limit_);
    }
}

template class Compressed<float>;
template class Compressed<double>;
template class JoinedKeys<float>;
template class JoinedKeys<double>;

} // namespace mha
