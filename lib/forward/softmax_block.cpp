#include <mha/forward/softmax_block.hpp>

#include <mha/forward/bias.hpp>
#include <mha/forward/mask.hpp>
#include <mha/kernels/rows.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

template <class T> constexpr T infinity = std::numeric_limits<T>::infinity();

/// Whether keys that no query of the block can see may be left out: only where their weights are
/// zeros made by the mask, and zero times v is zero.
bool may_skip(const Layer& layer) {
  const bool given = layer.has_given(Stage::masked) || layer.has_given(Stage::shifted) ||
                     layer.has_given(Stage::exp) || layer.has_given(Stage::weights);
  return !given && layer.settings.masked_rows == MaskedRows::zero;
}

} // namespace

template <class T> SoftmaxBlock<T>& SoftmaxBlock<T>::of_this_thread() {
  thread_local SoftmaxBlock block;
  return block;
}

template <class T> void SoftmaxBlock<T>::start(const Layer& layer, const Plan& plan, std::size_t b,
                                               std::size_t h, std::size_t first_query,
                                               std::size_t queries, bool finite_values,
                                               std::size_t step) {
  layer_ = &layer, plan_ = &plan;
  b_ = b, h_ = h, first_ = first_query, queries_ = queries, keys_ = layer.dims.S_all;
  seen_ = may_skip(layer) && finite_values ? visible_tiles(layer, b, first_query, queries, step)
                                           : Visible{0, keys_};
  const bool all_scores =
      wants(Stage::scores) || wants(Stage::scaled) || wants(Stage::capped) || wants(Stage::biased);
  scored_ = all_scores ? Visible{0, keys_} : seen_;
  scale_ = static_cast<T>(layer.scale());
  if (computes(Stage::biased) && layer.settings.alibi != Alibi::none)
    slope_ = static_cast<T>(alibi_slopes(layer.dims.H, layer.settings.alibi)[h]);

  rows_.room_for(queries * keys_);
  scales_late_ =
      scale_ > 0 && computes(Stage::scaled) && computes(Stage::masked) &&
      computes(Stage::shifted) && computes(Stage::exp) &&
      layer.settings.softmax == Softmax::stable && layer.added.empty() &&
      (computes(Stage::row_max) && !computes(Stage::capped) && !computes(Stage::biased)) &&
      none_wanted({Stage::scaled, Stage::masked, Stage::row_max, Stage::shifted});
  for (const StageInfo& info : stages()) {
    if (!wants(info.stage)) continue;
    if (info.kind == Kind::map && info.stage != Stage::weights)
      maps_[index_of(info.stage)].room_for(queries * keys_);
    if (info.kind == Kind::row) row_values_[index_of(info.stage)].room_for(queries);
  }
}

template <class T> const T* SoftmaxBlock<T>::map(Stage stage) const {
  return stage == Stage::weights ? rows_.data() : maps_[index_of(stage)].data();
}

template <class T> void SoftmaxBlock<T>::load(Stage stage, std::size_t i, T* row) const {
  const std::size_t at = ((b_ * layer_->dims.H + h_) * layer_->dims.T + first_ + i) * keys_;
  std::copy_n(layer_->given[index_of(stage)].template as<T>().data() + at, keys_, row);
}

template <class T> T SoftmaxBlock<T>::given_value(Stage stage, std::size_t i) const {
  return layer_->given[index_of(stage)]
      .template as<T>()[(b_ * layer_->dims.H + h_) * layer_->dims.T + first_ + i];
}

template <class T> bool SoftmaxBlock<T>::none_wanted(std::initializer_list<Stage> stages) const {
  return std::none_of(stages.begin(), stages.end(), [this](Stage stage) { return wants(stage); });
}

template <class T> void SoftmaxBlock<T>::keep(Stage stage, std::size_t i, const T* row, T outside) {
  if (!wants(stage)) return;
  T* to = maps_[index_of(stage)].data() + i * keys_;
  std::fill(to, to + seen_.first, outside);
  std::copy(row + seen_.first, row + seen_.last, to + seen_.first);
  std::fill(to + seen_.last, to + keys_, outside);
}

template <class T> void SoftmaxBlock<T>::keep_value(Stage stage, std::size_t i, T value) {
  if (wants(stage)) row_values_[index_of(stage)].data()[i] = value;
}

template <class T> void SoftmaxBlock<T>::run() {
  for (std::size_t i = 0; i < queries_; ++i) run_row(i);
}

template <class T> void SoftmaxBlock<T>::run_row(std::size_t i) {
  const Layer& layer = *layer_;
  const std::size_t t = first_ + i;
  const bool naive = layer.settings.softmax == Softmax::naive;
  T* row = rows_.data() + i * keys_;
  const auto keep_scores = [&](Stage stage) {
    if (wants(stage)) std::copy_n(row, keys_, maps_[index_of(stage)].data() + i * keys_);
  };

  // scores, scaled, capped, biased: over every key if somebody looks, else over those that are
  // seen.
  const std::size_t first_score = scored_.first, count = scored_.last - scored_.first;
  if (starts_at(Stage::scores)) load(Stage::scores, i, row);
  keep_scores(Stage::scores);
  if (starts_at(Stage::scaled))
    load(Stage::scaled, i, row);
  else if (computes(Stage::scaled) && !scales_late_)
    row_scale(row + first_score, count, scale_);
  keep_scores(Stage::scaled);
  if (starts_at(Stage::capped))
    load(Stage::capped, i, row);
  else if (computes(Stage::capped))
    row_softcap(row + first_score, count, static_cast<T>(layer.settings.softcap));
  keep_scores(Stage::capped);
  if (starts_at(Stage::biased))
    load(Stage::biased, i, row);
  else if (computes(Stage::biased)) {
    add_bias(layer, b_, h_, t, scored_.first, scored_.last, row);
    add_alibi(layer, slope_, b_, t, scored_.first, scored_.last, row);
  }
  keep_scores(Stage::biased);

  // masked, row_max, shifted, exp, row_sum, weights: over the keys that the block can see.
  const std::size_t n = seen_.last - seen_.first;
  T* seen = row + seen_.first;
  if (starts_at(Stage::masked))
    load(Stage::masked, i, row);
  else if (computes(Stage::masked))
    add_masks(layer, b_, h_, t, seen_.first, seen_.last, row);
  keep(Stage::masked, i, row, -infinity<T>);

  const T sink = layer.sinks.empty() ? -infinity<T> : layer.sinks.as<T>()[h_];
  const auto max_of_row = [&] {
    const T max = row_max(seen, n) * (scales_late_ ? scale_ : T(1));
    return std::isnan(sink) || sink > max ? sink : max;
  };
  T max = 0;
  if (starts_at(Stage::row_max))
    max = given_value(Stage::row_max, i);
  else if (computes(Stage::row_max))
    max = max_of_row();
  keep_value(Stage::row_max, i, max);

  // A row without any allowed key stays at −inf: its exponentials are zeros, not NaN.
  const T shift = naive || max == -infinity<T> ? T(0) : max;
  T sum = 0;
  if (starts_at(Stage::shifted))
    load(Stage::shifted, i, row);
  else if (computes(Stage::shifted) && (wants(Stage::shifted) || !computes(Stage::exp)))
    row_subtract(seen, n, shift);
  const T outside =
      -infinity<T> - shift; // of keys that the block cannot see: −inf, in a row of NaN NaN
  keep(Stage::shifted, i, row, outside);
  // The naive softmax can divide zeros by zero; only where the mask made them all is that a masked
  // row.
  const bool nothing_allowed = naive && computes(Stage::exp) && max_of_row() == -infinity<T>;
  const bool shifted_already = starts_at(Stage::shifted) || wants(Stage::shifted);
  if (starts_at(Stage::exp)) {
    load(Stage::exp, i, row);
    if (computes(Stage::row_sum)) sum = row_sum(seen, n);
  } else if (computes(Stage::exp)) {
    sum = row_exp_sum(seen, n, shifted_already ? T(0) : shift, scales_late_ ? scale_ : T(1));
  }
  keep(Stage::exp, i, row, std::exp(outside));
  if (starts_at(Stage::row_sum))
    sum = given_value(Stage::row_sum, i);
  else if (computes(Stage::row_sum) && !layer.sinks.empty())
    sum += std::exp(sink - shift);
  keep_value(Stage::row_sum, i, sum);
  if (starts_at(Stage::logsumexp))
    keep_value(Stage::logsumexp, i, given_value(Stage::logsumexp, i));
  else if (computes(Stage::logsumexp))
    keep_value(Stage::logsumexp, i, (naive ? T(0) : max) + std::log(sum));

  if (starts_at(Stage::weights))
    load(Stage::weights, i, row);
  else if (computes(Stage::weights)) {
    if (naive && computes(Stage::exp) ? nothing_allowed : sum == 0) {
      const MaskedRows policy = layer.settings.masked_rows;
      std::fill_n(seen, n,
                  policy == MaskedRows::zero  ? T(0)
                  : policy == MaskedRows::nan ? std::numeric_limits<T>::quiet_NaN()
                                              : T(1) / static_cast<T>(keys_));
    } else {
      row_divide(seen, n, sum);
    }
    if (wants(Stage::weights)) {
      const T unseen = std::isnan(sum) ? sum : T(0);
      std::fill(row, seen, unseen);
      std::fill(seen + n, row + keys_, unseen);
    }
  }
}

template class SoftmaxBlock<float>;
template class SoftmaxBlock<double>;

} // namespace mha
