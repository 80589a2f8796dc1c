#include <mha/schedule/band.hpp>

#include <mha/maths/functions.hpp>

#include <algorithm>

namespace mha {

ScorePlan::ScorePlan(const Layer& layer, const Plan& plan)
    : wanted(plan.wanted),
      computed(plan.computed),
      given(layer.given_set & plan.needed),
      patched(layer.patches.stages & plan.needed),
      last(last_of_heads(layer)) {
  using enum Stage;
  // concat is head_out in another layout.
  if (layer.patches.has(concat) && contains(plan.needed, head_out)) patched.add(concat);
  every_score = (wanted & StageSet{scores, scaled, capped, biased}).any();
  may_skip = (layer.given_set & StageSet{masked, shifted, exp, weights}).none() &&
             layer.settings.masked_rows == MaskedRows::zero;
  const StageSet unseen = StageSet{scaled, masked, row_max, shifted},
                 from_scores = unseen | StageSet{exp};
  scales_in_exp = layer.scale() > 0 && layer.settings.softmax == Softmax::stable &&
                  layer.added.empty() && (computed & StageSet{capped, biased}).none() &&
                  (from_scores & ~computed).none() && (unseen & (wanted | patched)).none();
}

template <class T>
Band<T>::Band(const Layer& layer, const ScorePlan& steps, const TokenStages<T>& tokens,
              const HeadKeys<T>& keys, BandMemory<T>& memory, PatchedResults<T>& results,
              Observer& observer, const Place& place, std::size_t heads)
    : layer_(layer),
      steps_(steps),
      tokens_(tokens),
      keys_(keys),
      memory_(memory),
      results_(results),
      observer_(observer),
      place_(place),
      heads_(heads),
      all_keys_(layer.dims.S_all),
      item_keys_(mha::computed_keys(layer, place.batch)) {
  const Visible all{0, item_keys_};
  visible_keys_ = steps.may_skip && keys.finite && !touches_maps()
                      ? visible_tiles(layer, place.batch, place.token, place.count,
                                      PackedMatrix<T>::column_step)
                      : all;
  computed_keys_ = steps.every_score ? all : visible_keys_;
  make_room();
}

template <class T> void Band<T>::make_room() {
  const std::size_t n = rows();
  memory_.map.room_for(n * all_keys_);
  for (const Stage stage : steps_.wanted) {
    Buffer<T>& wanted = memory_.wanted[index_of(stage)];
    const Kind kind = info_of(stage).kind;
    if (kind == Kind::map && stage != Stage::weights) wanted.room_for(n * all_keys_);
    if (kind == Kind::row) wanted.room_for(n);
  }
  if (contains(steps_.computed | steps_.patched, Stage::head_result))
    memory_.head_result.room_for(n * layer_.dims.d_out);
}

template <class T> Matrix<T> Band<T>::operator[](Stage stage) const {
  const StageInfo& info = info_of(stage);
  if (info.kind == Kind::map) return {memory_.map.data(), rows(), all_keys_, all_keys_};
  const std::size_t width = layer_.dims.size_of(info.letters.back());
  if (info.kind == Kind::head_result)
    return {memory_.head_result.data(), place_.count, width, width};
  const Matrix<T> queries = tokens_.rows_mutable(stage, place_.batch)
                                .rows_from(place_.token, place_.count)
                                .cols_from(place_.head * width, width);
  return heads_ > 1 ? Matrix<T>{queries.data, heads_, width, width} : queries;
}

/// Rows of q a page apart share lines of the first cache, so that a copy side by side is
/// read.
template <class T> void Band<T>::product_with_keys(Matrix<const T> q, Matrix<T> s) const {
  const Matrix<T> close{memory_.q.room_for(q.rows * q.cols), q.rows, q.cols, q.cols};
  for (std::size_t i = 0; i < q.rows; ++i) std::copy_n(q.row(i), q.cols, close.row(i));
  for (std::size_t j = computed_keys_.first; j < computed_keys_.last; j += key_tile)
    keys_.product_with_keys(close, j, s.cols_from(j, std::min(key_tile, computed_keys_.last - j)));
}

template <class T> void Band<T>::product_with_values(Matrix<const T> weights, Matrix<T> z) const {
  for (std::size_t i = 0; i < z.rows; ++i) std::fill_n(z.row(i), z.cols, T(0));
  for (std::size_t j = visible_keys_.first; j < visible_keys_.last; j += key_tile)
    keys_.product_with_values(weights.cols_from(j, std::min(key_tile, visible_keys_.last - j)), j,
                              z, j != visible_keys_.first);
}

template <class T> void Band<T>::show_rows() const {
  const std::size_t n = place_.count;
  Place place = place_;
  for (const StageInfo& info : stages()) {
    if (!contains(steps_.wanted, info.stage)) continue;
    const T* values = info.stage == Stage::weights ? memory_.map.data()
                                                   : memory_.wanted[index_of(info.stage)].data();
    if (info.kind != Kind::map && info.kind != Kind::row) continue;
    for (std::size_t h = 0; h < heads_; ++h) {
      place.head = place_.head + h;
      const Matrix<const T> row{values + h * n, 1, n, n},
          map{values + h * n * all_keys_, n, all_keys_, all_keys_};
      show<T>(observer_, layer_, info.stage, place, info.kind == Kind::map ? map : row);
    }
  }
}

template <class T> void Band<T>::show_head_result() const {
  constexpr Stage stage = Stage::head_result;
  Matrix<const T> values = (*this)[stage];
  if (contains(steps_.given, stage) && !contains(steps_.patched, stage))
    values.data = layer_.given[index_of(stage)].template as<T>().data() + given_at(0) * values.cols;
  show(observer_, layer_, stage, place_, values);
}

/// Whether a patch gives keys that the mask hides a weight: then the band sees every key.
template <class T> bool Band<T>::touches_maps() const {
  using enum Stage;
  for (Stage stage : {masked, shifted, exp, weights})
    if (contains(steps_.patched, stage))
      for (std::size_t i = 0; i < place_.count; ++i)
        if (layer_.patches.touches(stage, place_.batch, place_.head, place_.token + i)) return true;
  return false;
}

/// concat is the same rows, the heads side by side.
template <class T> void Band<T>::patch_head_out() const {
  const Matrix<T> rows = (*this)[Stage::head_out];
  patch_rows(layer_.patches, Stage::head_out, place_.batch, place_.token, place_.head, 1, rows.cols,
             rows);
  if (!contains(steps_.patched, Stage::concat) || steps_.last != Stage::head_out) return;
  for (std::size_t t = 0; t < rows.rows; ++t)
    layer_.patches.apply(Stage::concat, place_.batch, 0, place_.token + t, rows.row(t),
                         place_.head * rows.cols, rows.cols);
}

template <class T> void Band<T>::patch_head_result() const {
  const Matrix<T> rows = (*this)[Stage::head_result];
  for (std::size_t t = 0; t < rows.rows; ++t) {
    const std::size_t token = place_.token + t;
    if (!layer_.patches.touches(Stage::head_result, place_.batch, place_.head, token)) continue;
    layer_.patches.apply(Stage::head_result, place_.batch, place_.head, token, rows.row(t), 0,
                         rows.cols);
    results_.keep(place_.batch, place_.head, token, {rows.row(t), rows.row(t) + rows.cols});
  }
}

template <class T> void Row<T>::patch(Stage stage) {
  if (!contains(steps_.patched, stage)) return;
  const RowPlace at = place();
  const Keys<T> seen = keys(stage);
  band_.layer_.patches.apply(stage, at.batch, at.head, at.query, seen.begin(), seen.first,
                             seen.size());
}

template <class T> void Row<T>::load(Stage stage) {
  const T* given = band_.layer_.given[index_of(stage)].template as<T>().data();
  std::copy_n(given + band_.given_at(i_) * band_.all_keys_, band_.all_keys_, row_);
}

/// weights stay where they are; of another stage a copy is kept.
template <class T> void Row<T>::keep(Stage stage, T hidden) {
  const Keys<T> seen = keys(stage);
  T* to = row_;
  if (stage != Stage::weights) {
    to = band_.memory_.wanted[index_of(stage)].data() + i_ * band_.all_keys_;
    std::copy(seen.begin(), seen.end(), to + seen.first);
  }
  std::fill(to, to + seen.first, hidden);
  std::fill(to + seen.last, to + band_.all_keys_, hidden);
}

template <class T> T Row<T>::exp_sum(T shift) {
  using enum Stage;
  const T hidden = -std::numeric_limits<T>::infinity() - shift; // in a row of NaN, NaN
  const bool one_pass =
      computes(shifted) && computes(exp) && !wants(shifted) && !contains(steps_.patched, shifted);
  step(shifted, hidden, [&](Keys<T> keys) {
    if (!one_pass) row_subtract(keys.begin(), keys.size(), shift);
  });
  T sum = 0;
  step(exp, maths::exp(hidden), [&](Keys<T> keys) {
    sum = row_exp_sum(keys.begin(), keys.size(), one_pass ? shift : T(0), factor_);
  });
  if ((is_given(exp) || contains(steps_.patched, exp)) && computes(Stage::row_sum))
    sum = mha::row_sum(keys(exp).begin(), keys(exp).size());
  return computes(Stage::row_sum) && has_gap() ? sum_without_gap(keys(exp)) : sum;
}

/// Whether padding is between the keys of a shorter text and those after all texts' (extra,
/// zero).
template <class T> bool Row<T>::has_gap() const {
  const Layer& layer = band_.layer_;
  const Dims& d = layer.dims;
  return !layer.lengths.empty() && d.extra + d.zero > 0 &&
         keys_of(layer, band_.place_.batch) < d.past + d.S;
}

/// Zeros in the gap add nothing, but move the keys after it to other places of the sum than they
/// have in the text alone.
template <class T> T Row<T>::sum_without_gap(Keys<T> exponentials) const {
  const Layer& layer = band_.layer_;
  const std::size_t after = layer.dims.past + layer.dims.S;
  const Keys<T> own = exponentials.within(0, keys_of(layer, band_.place_.batch)),
                others = exponentials.within(after, layer.dims.S_all);
  std::vector<T> row(own.begin(), own.end());
  row.insert(row.end(), others.begin(), others.end());
  return mha::row_sum(row.data(), row.size());
}

template class Band<float>;
template class Band<double>;
template class Row<float>;
template class Row<double>;

} // namespace mha
