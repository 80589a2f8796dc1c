#include <mha/heads/measure_rows.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/observe/share_bytes.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mha {

namespace {

constexpr double one_key_threshold = 0.9;
/// Maps are compared after averaging down to this many cells a side, at most.
constexpr std::size_t most_cells = 256;

/// Positions averaged into one cell: a power of two, so that no cell lies in two blocks of queries.
std::size_t cell_step(std::size_t count) {
  return std::bit_ceil(std::max<std::size_t>(1, (count + most_cells - 1) / most_cells));
}

double to_double(std::size_t count) {
  return static_cast<double>(count);
}

/// The elements of a band's row stage.
template <class T> const T* values_of(const Block& block, std::size_t i = 0) {
  return reinterpret_cast<const T*>(block.values.data) +
         static_cast<std::ptrdiff_t>(i) * block.values.strides[1];
}

} // namespace

RowMeasures::RowMeasures(const Layer& layer, const MeasureRequest& request,
                         const StageSet& available)
    : layer_(layer),
      dims_(layer.dims),
      window_(request.window),
      block_rows_(block_queries),
      blocks_((dims_.T + block_queries - 1) / block_queries),
      weights_are_given_(layer.has_given(Stage::weights)),
      positioned_(queries_are_among_keys(layer)),
      starts_after_masks_(layer.has_given(Stage::weights) || layer.has_given(Stage::exp) ||
                          layer.has_given(Stage::shifted) || layer.has_given(Stage::row_sum)),
      with_position_(dims_.past + dims_.S),
      selected_(dims_.T, !request.selection.query),
      attends_(dims_.B * dims_.H * dims_.T, 1),
      parts_(dims_.B * dims_.H * blocks_) {
  if (request.selection.query)
    for (std::size_t t : request.selection.query->resolve(dims_.T, "queries").indices)
      selected_[t] = true;

  const auto want = [&](Stage stage) {
    if (contains(available, stage)) wanted_.set(index_of(stage));
  };
  want(Stage::weights);
  if (!weights_are_given_) {
    want(Stage::row_max);
    want(Stage::logsumexp);
  }
  for (std::size_t b = 0; b < (layer.item_tokens.empty() ? 1 : dims_.B); ++b)
    repeats_.emplace_back(layer, b);
  may_be_causal_ = weights_are_given_ && positioned_ && dims_.S_all == dims_.T && dims_.T > 1 &&
                   !has_masks(layer);
  if (dims_.H > 1) {
    row_step_ = std::min(cell_step(dims_.T), block_rows_), col_step_ = cell_step(dims_.S_all);
    cell_rows_ = (dims_.T + row_step_ - 1) / row_step_;
    cell_cols_ = (dims_.S_all + col_step_ - 1) / col_step_;
    cells_.resize(dims_.B * dims_.H * cells());
  }
}

void RowMeasures::observe(const Block& block) {
  if (block.values.dtype == DType::f64)
    observe_as<double>(block);
  else
    observe_as<float>(block);
}

// A block's stages arrive in the order of the computation, its bands one after the other, in one
// thread.
template <class T> void RowMeasures::observe_as(const Block& block) {
  BlockSums& part = sums_of(block);
  const std::size_t n = block.values.shape[1];
  // What is behind the end of a shorter text is not measured.
  const std::size_t tokens =
      std::min(n, block.length > block.token ? block.length - block.token : 0);
  switch (block.stage) {
  case Stage::row_max:
    for (std::size_t i = 0; i < tokens; ++i)
      if (const T value = *values_of<T>(block, i);
          selected_[block.token + i] && value != -std::numeric_limits<T>::infinity())
        keep_larger(part.totals.largest_logit, value);
    break;
  case Stage::logsumexp:
    for (std::size_t i = 0; i < tokens; ++i)
      if (selected_[block.token + i])
        keep_larger(part.totals.largest_logsumexp, *values_of<T>(block, i));
    break;
  default:
    for (std::size_t i = 0; i < tokens; ++i) measure_row(block, i, values_of<T>(block, i), part);
    for (std::size_t i = tokens; i < n; ++i) pass_over<T>(block, i, part);
  }
}

std::pair<std::size_t, std::size_t> RowMeasures::window_of(std::size_t b, std::size_t t) const {
  const std::ptrdiff_t p = layer_.query_position(b, t),
                       reach = static_cast<std::ptrdiff_t>(window_),
                       keys = static_cast<std::ptrdiff_t>(with_position_);
  const std::ptrdiff_t first = std::clamp<std::ptrdiff_t>(p - reach, 0, keys),
                       last = std::clamp<std::ptrdiff_t>(p + reach + 1, first, keys);
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

RowMeasures::Seen RowMeasures::seen_by(std::size_t b, std::size_t h, std::size_t t) const {
  const auto [first, last] = window_of(b, t);
  if (layer_.added.empty() && layer_.blocked.empty() && layer_.bias.empty() &&
      !layer_.has_given(Stage::masked) && !layer_.has_given(Stage::shifted)) {
    const Visible visible = visible_keys(layer_, b, t);
    const std::size_t from = std::max(first, visible.first), to = std::min(last, visible.last);
    return {visible.last - visible.first + dims_.extra + dims_.zero, to > from ? to - from : 0};
  }
  thread_local std::vector<std::uint8_t> masked;
  masked_keys(layer_, b, h, t, masked);
  const auto place = [&](std::size_t j) { return masked.begin() + static_cast<std::ptrdiff_t>(j); };
  return {static_cast<std::size_t>(std::count(masked.begin(), masked.end(), 0)),
          static_cast<std::size_t>(std::count(place(first), place(last), 0))};
}

void RowMeasures::add_repeats(const Block& block, std::size_t t, const auto* row,
                              RowTotals& totals) const {
  const std::ptrdiff_t p = layer_.query_position(block.batch, t);
  double same = 0, next = 0;
  bool has_same = false, has_next = false;
  for (std::size_t j : repeats_of(block.batch).keys_of(t)) {
    if (static_cast<std::ptrdiff_t>(j) >= p) break;
    same += row[j], has_same = true;
    // What follows is neither the query itself nor a key without a position.
    if (static_cast<std::ptrdiff_t>(j) + 1 < p && j + 1 < with_position_)
      next += row[j + 1], has_next = true;
  }
  if (has_same) totals.duplicate.add(same);
  if (has_next) totals.induction.add(next);
}

template <class T> void RowMeasures::add_if_causal(const T* row, std::size_t keys, double entropy,
                                                   std::size_t b, std::size_t t,
                                                   RowTotals& totals) const {
  totals.looks_ahead |= !std::all_of(row + keys, row + dims_.S_all, [](T w) { return w == 0; });
  if (totals.looks_ahead) return;
  const auto [first, last] = window_of(b, t);
  totals.causal_window_keys.add(to_double(std::min(last, keys) - first) / to_double(keys));
  if (keys == 1) return;
  totals.causal_entropy_share.add(entropy / std::log(to_double(keys)));
  const RowSums sums = row_sums(row, keys, T(1) / static_cast<T>(keys));
  totals.causal_uniformity.add(std::isnan(sums.sum) ? sums.sum : sums.overlap);
}

template <class T>
void RowMeasures::measure_row(const Block& block, std::size_t i, const T* row, BlockSums& part) {
  const std::size_t b = block.batch, h = block.head, t = block.token + i, S = dims_.S_all;
  std::uint8_t& attends = attends_[(b * dims_.H + h) * dims_.T + t];
  RowTotals& totals = part.totals;
  // Keys that computed weights leave out are zero.
  const Visible visible =
      weights_are_given_ ? Visible{0, with_position_} : visible_keys(layer_, b, t);
  const std::ptrdiff_t p = layer_.query_position(b, t);
  const auto signed_first = static_cast<std::ptrdiff_t>(visible.first),
             signed_last = static_cast<std::ptrdiff_t>(visible.last);
  // Up to the query's own position, after it, and the keys without one.
  const auto middle = static_cast<std::size_t>(
      positioned_ ? std::clamp(p + 1, signed_first, signed_last) : signed_last);
  const std::pair<std::size_t, std::size_t> runs[] = {
      {visible.first, middle}, {middle, visible.last}, {with_position_, S}};

  const Seen seen = seen_by(b, h, t);
  attends = seen.keys > 0 || weights_are_given_;
  const T equal = seen.keys == 0 ? T(0) : T(1) / static_cast<T>(seen.keys);
  double sum = 0, entropy = 0, overlap = 0, distance = 0, max = -1;
  Moments moments;
  // Counted from the middle, where squares are small.
  const double row_number = to_double(t) - to_double(dims_.T) / 2,
               centre = to_double(with_position_) / 2;
  for (const auto& [first, last] : runs) {
    if (first == last) continue;
    const RowSums sums = row_sums(row + first, last - first, equal);
    sum += sums.sum, entropy += sums.entropy, overlap += sums.overlap;
    max = larger(static_cast<double>(row_max(row + first, last - first)), max);
    if (first == with_position_) continue;
    const double from_query = to_double(first) - static_cast<double>(p),
                 from_centre = to_double(first) - centre;
    distance += std::fabs(from_query * sums.sum + sums.first);
    const double j = from_centre * sums.sum + sums.first;
    moments.weight += sums.sum, moments.t += row_number * sums.sum, moments.j += j;
    moments.tt += row_number * row_number * sums.sum, moments.tj += row_number * j;
    moments.jj += from_centre * (from_centre * sums.sum + 2 * sums.first) + sums.second;
  }
  // Maps of others: rows of zeros, or of NaN as PyTorch leaves them.
  if ((starts_after_masks_ && sum == 0) ||
      (weights_are_given_ && std::isnan(sum) &&
       std::all_of(row, row + S, [](T weight) { return std::isnan(weight); })))
    attends = 0;
  if (!cells_.empty()) add_to_cells(block, t, selected_[t] && attends ? row : nullptr, part);
  if (!selected_[t]) return;
  if (!attends) {
    ++totals.masked;
    return;
  }

  totals.entropy.add(entropy);
  totals.effective_keys.add(std::exp(entropy));
  if (seen.keys > 1) {
    totals.entropy_share.add(entropy / std::log(to_double(seen.keys)));
    totals.uniformity.add(std::isnan(sum) ? sum : overlap);
  }
  if (may_be_causal_) add_if_causal(row, static_cast<std::size_t>(p) + 1, entropy, b, t, totals);
  totals.one_key.add(max > one_key_threshold ? 1 : 0);
  totals.first.add(row[0]);
  totals.moments.add(moments);
  totals.row_sum_error = larger(std::fabs(sum - 1), totals.row_sum_error);
  if (max > totals.max || (std::isnan(max) && !std::isnan(totals.max))) {
    totals.max = max, totals.max_batch = b, totals.max_query = t;
    const auto largest = std::find_if(row, row + S, [max](T weight) {
      return static_cast<double>(weight) == max || std::isnan(weight);
    });
    totals.max_key = static_cast<std::size_t>(largest - row);
  }
  if (!positioned_) return;
  totals.distance.add(distance);
  if (p >= 0 && p < static_cast<std::ptrdiff_t>(with_position_)) totals.self.add(row[p]);
  if (p >= 1 && p <= static_cast<std::ptrdiff_t>(with_position_)) totals.previous.add(row[p - 1]);
  const auto [first, last] = window_of(b, t);
  double near = 0;
  for (std::size_t j = first; j < last; ++j) near += static_cast<double>(row[j]);
  totals.window.add(near);
  if (seen.keys > 0) totals.window_keys.add(to_double(seen.in_window) / to_double(seen.keys));
  if (repeats_of(b).known()) add_repeats(block, t, row, totals);
}

/// A query that is padding: it attends to nothing and counts nowhere.
template <class T> void RowMeasures::pass_over(const Block& block, std::size_t i, BlockSums& part) {
  const std::size_t t = block.token + i;
  attends_[(block.batch * dims_.H + block.head) * dims_.T + t] = 0;
  if (!cells_.empty()) add_to_cells<T>(block, t, nullptr, part);
}

template <class T> std::vector<T>& RowMeasures::column_sums(BlockSums& part) {
  if constexpr (std::is_same_v<T, double>)
    return part.column_sums_f64;
  else
    return part.column_sums;
}

/// Adds a row (none: it is left out) to its row of cells, which is complete with its last query.
template <class T>
void RowMeasures::add_to_cells(const Block& block, std::size_t t, const T* row, BlockSums& part) {
  std::vector<T>& sums = column_sums<T>(part);
  const std::size_t S = dims_.S_all, place = t % row_step_;
  if (sums.empty()) sums.assign(S, T(0));
  if (row != nullptr) row_add(sums.data(), row, S);
  if (place + 1 < row_step_ && t + 1 < dims_.T) return;
  float* cell = cells_of(block.batch, block.head) + t / row_step_ * cell_cols_;
  for (std::size_t first = 0; first < S; first += col_step_, ++cell) {
    const std::size_t last = std::min(first + col_step_, S);
    double sum = 0;
    for (std::size_t j = first; j < last; ++j) sum += static_cast<double>(sums[j]);
    *cell = static_cast<float>(sum / to_double((place + 1) * (last - first)));
  }
  const bool ends = (t + 1) % block_rows_ == 0 || t + 1 == dims_.T;
  if (ends)
    sums = {};
  else
    std::fill(sums.begin(), sums.end(), T(0));
}

std::vector<RowMeasures::Filled> RowMeasures::filled_by(const Plan& plan) const {
  std::vector<Filled> list;
  const std::size_t rows = cells_.empty() ? 0 : block_rows_ / row_step_; // of cells, in a block
  for (const auto& [batch, head, block] : plan.blocks) {
    if (head >= dims_.H || block >= blocks_) continue; // there is nothing to compute
    const std::size_t map = batch * dims_.H + head, first = std::min(block * rows, cell_rows_),
                      last = std::min(first + rows, cell_rows_);
    list.push_back(
        {map * blocks_ + block, map * cells() + first * cell_cols_, (last - first) * cell_cols_});
  }
  return list;
}

std::string RowMeasures::packed(const Layer&, const Plan& part) const {
  ShareWriter bytes;
  for (const auto& [unit, first_cell, count] : filled_by(part)) {
    bytes.add(parts_[unit].totals);
    bytes.add(std::span(cells_).subspan(first_cell, count));
  }
  return bytes.take();
}

void RowMeasures::unpack(const Layer&, const Plan& part, std::string_view bytes) {
  ShareReader reader(bytes);
  for (const auto& [unit, first_cell, count] : filled_by(part)) {
    parts_[unit].totals = reader.take<RowTotals>();
    reader.take(std::span(cells_).subspan(first_cell, count));
  }
  reader.end();
}

double RowMeasures::similarity(std::size_t a, std::size_t b) const {
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t batch = 0; batch < dims_.B; ++batch) {
    const float *x = &cells_[(batch * dims_.H + a) * cells()],
                *y = &cells_[(batch * dims_.H + b) * cells()];
    for (std::size_t i = 0; i < cells(); ++i) {
      const double u = x[i], v = y[i];
      aa += u * u, bb += v * v, ab += u * v;
    }
  }
  return ab / std::sqrt(aa * bb);
}

void RowMeasures::fill(HeadMeasures& head) const {
  if (!contains(wanted_, Stage::weights)) return;
  RowTotals totals;
  for (std::size_t b = 0; b < dims_.B; ++b)
    for (std::size_t block = 0; block < blocks_; ++block)
      totals.add(parts_[(b * dims_.H + head.head) * blocks_ + block].totals);

  head.entropy = totals.entropy.value();
  head.effective_keys = totals.effective_keys.value();
  const bool causal =
      may_be_causal_ && std::none_of(parts_.begin(), parts_.end(),
                                     [](const BlockSums& p) { return p.totals.looks_ahead; });
  const auto either = [&](const RowMean& if_causal, const RowMean& if_not) {
    return (causal ? if_causal : if_not).value();
  };
  head.entropy_share = either(totals.causal_entropy_share, totals.entropy_share);
  head.uniformity = either(totals.causal_uniformity, totals.uniformity);
  head.one_key_rows = totals.one_key.value();
  head.first = totals.first.value();
  head.self = totals.self.value();
  head.previous = totals.previous.value();
  head.distance = totals.distance.value();
  head.window = totals.window.value();
  head.window_keys = either(totals.causal_window_keys, totals.window_keys);
  head.induction = totals.induction.value();
  head.duplicate = totals.duplicate.value();
  head.masked_rows = to_double(totals.masked);
  head.largest_logit = totals.largest_logit;
  if (const std::optional<double> logsumexp = totals.largest_logsumexp) {
    constexpr double largest_half = 65504;
    // A sum of infinities may be NaN by now; the logit tells.
    const double largest = std::max(totals.largest_logit.value_or(-INFINITY), *logsumexp);
    head.overflow_f32 = largest > std::log(std::numeric_limits<float>::max()) ? 1.0 : 0.0;
    head.overflow_f16 = largest > std::log(largest_half) ? 1.0 : 0.0;
  }
  if (totals.entropy.rows == 0) return;
  head.diagonal = totals.moments.correlation();
  head.max = totals.max;
  head.max_query = to_double(totals.max_query), head.max_key = to_double(totals.max_key);
  if (dims_.batched) head.max_batch = to_double(totals.max_batch);
  head.row_sum_error = totals.row_sum_error;
  for (std::size_t other = 0; other < dims_.H; ++other) {
    if (other == head.head) continue;
    const double cosine = similarity(head.head, other);
    if (std::isnan(cosine) || (head.similarity && cosine <= *head.similarity)) continue;
    head.similarity = cosine, head.nearest_head = to_double(other);
  }
}

} // namespace mha
