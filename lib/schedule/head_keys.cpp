#include <mha/schedule/head_keys.hpp>

#include <mha/schedule/visible.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <utility>

namespace mha {

template <class T>
void HeadKeys<T>::product_with_keys(Matrix<const T> q, std::size_t first, Matrix<T> s) const {
  const std::size_t given = std::min(s.cols, k.past - std::min(first, k.past));
  if (given > 0) k.earlier.multiply(q, 0, first, s.cols_from(0, given));
  if (given < s.cols)
    k.others.multiply(q, 0, first + given - k.past, s.cols_from(given, s.cols - given));
}

template <class T> void HeadKeys<T>::product_with_values(Matrix<const T> weights, std::size_t first,
                                                         Matrix<T> z, bool accumulate) const {
  const std::size_t given = std::min(weights.cols, v.past - std::min(first, v.past));
  if (given > 0) v.earlier.multiply(weights.cols_from(0, given), first, 0, z, accumulate);
  if (given < weights.cols)
    v.others.multiply(weights.cols_from(given, weights.cols - given), first + given - v.past, 0, z,
                      accumulate || given > 0);
}

template <class T> bool AllKeys<T>::take_past(Stage all, const Tensor& past) {
  const Dims& dims = layer_.dims;
  const bool keys = all == Stage::k_all;
  if (!contains(plan_.computed, all) || dims.past == 0 || dims.extra + dims.zero > 0 ||
      contains(plan_.wanted, all) || layer_.patches.has(all) ||
      (keys && !layer_.relative_key.empty()))
    return false;
  const Routines& routines = keys ? scoring_ : weighing_;
  const bool in_place = std::ranges::all_of(plan_.batches, [&](std::size_t b) {
    return PackedMatrix<T>::reads_in_place(routines.of(b), keys,
                                           layer_.length_of(b) * dims.group());
  });
  if (in_place) (keys ? k_past_ : v_past_) = past;
  return in_place;
}

template <class T> void AllKeys<T>::prepare(const StageSet& computed, std::size_t threads) {
  const Dims& dims = layer_.dims;
  keys_.resize(dims.B * std::max<std::size_t>(1, dims.H_kv));
  std::vector<std::pair<std::size_t, std::size_t>> read; // batch, key/value head
  for (const QueryBlock& block : plan_.blocks)
    read.emplace_back(block.batch, kv_head_of(layer_, block.head));
  std::sort(read.begin(), read.end()); // heads that share one need not be neighbours
  read.erase(std::unique(read.begin(), read.end()), read.end());
  parallel_for(read.size(), threads, [&](std::size_t i) {
    const auto [batch, kv] = read[i];
    keys_[batch * dims.H_kv + kv] = of_head(batch, kv, computed);
  });
}

template <class T> const HeadKeys<T>& AllKeys<T>::of(std::size_t batch, std::size_t head) const {
  const std::size_t kv = layer_.dims.H_kv == 0 ? 0 : kv_head_of(layer_, head);
  return keys_[batch * layer_.dims.H_kv + kv];
}

template <class T>
HeadKeys<T> AllKeys<T>::of_head(std::size_t batch, std::size_t kv, const StageSet& computed) const {
  const Dims& dims = layer_.dims;
  const std::size_t rows = layer_.length_of(batch) * dims.group();
  bool finite = true;
  const auto prepared = [&](Stage all, const Tensor& past, std::size_t width,
                            const Routines& routines) {
    const bool keys = all == Stage::k_all;
    KeyRows<T> part;
    part.past = past.empty() ? 0 : dims.past;
    const Matrix<const T> others =
        tokens_.rows(all, batch)
            .rows_from(part.past, computed_keys(layer_, batch) - part.past)
            .cols_from(kv * width, width);
    part.others = PackedMatrix<T>(routines.of(batch), others, keys, rows);
    const bool needed = !keys && leaves_keys_out(batch);
    finite = !needed || all_finite(others);
    if (part.past == 0) return part;
    const Matrix<const T> earlier = matrix_of<T>(past, batch * dims.H_kv + kv);
    part.earlier = PackedMatrix<T>(routines.of(batch), earlier, keys, rows);
    finite = finite && (!needed || all_finite(earlier));
    return part;
  };
  HeadKeys<T> head;
  if (contains(computed, Stage::scores))
    head.k = prepared(Stage::k_all, k_past_, dims.d_k, scoring_);
  if (contains(computed, Stage::head_out))
    head.v = prepared(Stage::v_all, v_past_, dims.d_v, weighing_);
  head.finite = finite;
  return head;
}

/// Whether a band may see some keys only. Not one of a layer's only query that sees them all.
template <class T> bool AllKeys<T>::leaves_keys_out(std::size_t batch) const {
  if (layer_.length_of(batch) != 1) return true;
  const Visible seen = visible_tiles(layer_, batch, 0, 1, PackedMatrix<T>::column_step);
  return seen.first > 0 || seen.last < computed_keys(layer_, batch);
}

template struct HeadKeys<float>;
template struct HeadKeys<double>;
template class AllKeys<float>;
template class AllKeys<double>;

} // namespace mha
