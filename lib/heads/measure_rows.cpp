#include <mha/heads/measure_rows.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mha {

namespace {

constexpr double one_key_threshold = 0.9;
/// Maps are compared after averaging down to this many cells a side, at most.
constexpr std::size_t most_cells = 256;

/// Positions averaged into one cell: a power of two, so that no cell spans two blocks of queries.
std::size_t cell_step(std::size_t count) {
  return std::bit_ceil(std::max<std::size_t>(1, (count + most_cells - 1) / most_cells));
}

bool chooses_one(const Selection& selection, std::size_t B) {
  return selection.batch && selection.batch->resolve(B, "batch items").indices.size() == 1;
}

template <class T> bool all_nan(const T* row, std::size_t count) {
  return std::all_of(row, row + count, [](T number) { return std::isnan(number); });
}

} // namespace

RowMeasures::RowMeasures(const Layer& layer, const MeasureRequest& request,
                         const StageSet& available)
    : layer_(layer),
      dims_(layer.dims),
      window_(request.window),
      block_rows_(request.each_query ? 1 : block_queries),
      blocks_((dims_.T + block_rows_ - 1) / block_rows_),
      weights_are_given_(layer.has_given(Stage::weights)),
      positioned_(queries_are_among_keys(layer)),
      alone_(request.each_batch || chooses_one(request.selection, dims_.B)),
      starts_after_masks_(layer.has_given(Stage::weights) || layer.has_given(Stage::exp) ||
                          layer.has_given(Stage::shifted) || layer.has_given(Stage::row_sum)),
      positioned_key_count_(dims_.past + dims_.S),
      selected_(dims_.T, !request.selection.query),
      attends_(dims_.B * dims_.H * dims_.T, 1),
      parts_(dims_.B * dims_.H * blocks_) {
  if (request.selection.query)
    for (std::size_t t : request.selection.query->resolve(dims_.T, "queries").indices)
      selected_[t] = true;

  const auto want = [&](Stage stage) {
    if (contains(available, stage)) wanted_.add(stage);
  };
  want(Stage::weights);
  if (!weights_are_given_) {
    want(Stage::row_max);
    want(Stage::logsumexp);
  }
  const bool one_text = layer.item_tokens.empty() && layer.item_key_tokens.empty();
  for (std::size_t b = 0; b < (one_text ? 1 : dims_.B); ++b) {
    repeats_.emplace_back(layer, b);
    separators_.push_back(separator_keys(layer, b, request.separators));
  }
  const bool by_head = masks_differ_by_head(layer);
  for (std::size_t b = 0; b < dims_.B; ++b)
    for (std::size_t h = 0; h < dims_.H; ++h)
      last_keys_.push_back(h > 0 && !by_head ? last_keys_.back() : last_key(b, h));
  may_be_causal_ = weights_are_given_ && positioned_ && dims_.S_all == dims_.T && dims_.T > 1 &&
                   !has_masks(layer);
  if (dims_.H > 1 && !request.each_query) make_cells();
}

void RowMeasures::make_cells() {
  std::size_t cells = 0;
  for (std::size_t b = 0; b < dims_.B; ++b) {
    const std::size_t rows = layer_.length_of(b), cols = computed_keys(layer_, b);
    CellGrid grid;
    grid.row_step = std::min(cell_step(rows), block_rows_), grid.col_step = cell_step(cols);
    grid.rows = (may_be_causal_ ? 1 : 0) + (rows + grid.row_step - 1) / grid.row_step;
    grid.cols = (cols + grid.col_step - 1) / grid.col_step;
    grid.first = cells;
    cells = grid.of_head(dims_.H);
    grids_.push_back(grid);
  }
  cells_.resize(cells);
}

void RowMeasures::observe(const Slice& block) {
  if (block.token >= block.length) return; // padding
  by_precision(block.values.dtype, [&]<class T>(T) { observe_as<T>(block); });
}

// A block's stages arrive in the order of the computation, and its bands one after the other in one
// thread.
template <class T> void RowMeasures::observe_as(const Slice& block) {
  const auto part = [&](std::size_t i) -> BlockSums& { return sums_of(block, i); };
  const std::size_t n = block.values.shape[1];
  switch (block.stage) {
  case Stage::row_max:
    for (std::size_t i = 0; i < n; ++i)
      if (const T value = *block.row<T>(i);
          selected_[block.token + i] && value != -std::numeric_limits<T>::infinity())
        keep_larger(part(i).totals.largest_logit, value);
    break;
  case Stage::logsumexp:
    for (std::size_t i = 0; i < n; ++i)
      if (selected_[block.token + i])
        keep_larger(part(i).totals.largest_logsumexp, *block.row<T>(i));
    break;
  default:
    for (std::size_t i = 0; i < n; ++i) measure_row(block, i, block.row<T>(i), part(i));
  }
}

std::pair<std::size_t, std::size_t> RowMeasures::window_of(std::size_t b, std::size_t t) const {
  const std::ptrdiff_t p = layer_.query_position(b, t),
                       reach = static_cast<std::ptrdiff_t>(window_),
                       keys = static_cast<std::ptrdiff_t>(positioned_key_count_);
  const std::ptrdiff_t first = std::clamp<std::ptrdiff_t>(p - reach, 0, keys),
                       last = std::clamp<std::ptrdiff_t>(p + reach + 1, first, keys);
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

RowMeasures::Middle RowMeasures::middle_of(std::size_t b) const {
  if (!alone_) return {to_double(dims_.T) / 2, to_double(positioned_key_count_) / 2};
  return {to_double(layer_.length_of(b)) / 2, to_double(keys_of(layer_, b)) / 2};
}

RowMeasures::Seen RowMeasures::seen_by(std::size_t b, std::size_t h, std::size_t t) const {
  const auto [first, last] = window_of(b, t);
  if (layer_.added.empty() && layer_.blocked.empty() && layer_.bias.empty() &&
      !layer_.has_given(Stage::masked) && !layer_.has_given(Stage::shifted)) {
    const Visible visible = visible_keys(layer_, b, t);
    const std::size_t from = std::max(first, visible.first), to = std::min(last, visible.last);
    return {visible.last - visible.first + dims_.extra + dims_.zero, to > from ? to - from : 0,
            visible.first, visible.last, nullptr};
  }
  thread_local std::vector<std::uint8_t> masked;
  masked_keys(layer_, b, h, t, masked);
  const auto place = [&](std::size_t j) { return masked.begin() + static_cast<std::ptrdiff_t>(j); };
  return {static_cast<std::size_t>(std::count(masked.begin(), masked.end(), 0)),
          static_cast<std::size_t>(std::count(place(first), place(last), 0)), 0,
          positioned_key_count_, &masked};
}

std::optional<std::size_t> RowMeasures::last_key(std::size_t b, std::size_t h) const {
  std::optional<std::size_t> found;
  for (std::size_t t : {std::size_t{0}, layer_.length_of(b) - 1}) {
    if (dims_.T == 0) break;
    const Seen seen = seen_by(b, h, t);
    for (std::size_t j = positioned_key_count_; j > found.value_or(0); --j)
      if (seen.sees(j - 1)) {
        found = std::max(found.value_or(0), j - 1);
        break;
      }
  }
  return found;
}

Moments RowMeasures::uniform_moments(const MeasuredRow& row, const Seen& seen) const {
  const auto [middle, centre] = middle_of(row.b);
  const double t = to_double(row.t) - middle, uniform_weight = 1 / to_double(seen.keys);
  double keys = 0, sum = 0, squares = 0;
  if (seen.masked == nullptr) {
    // Σ (a + i) and Σ (a + i)² over i = 0 … n − 1.
    const double n = keys = to_double(seen.last - seen.first), a = to_double(seen.first) - centre;
    sum = n * a + n * (n - 1) / 2;
    squares = n * a * a + a * n * (n - 1) + (n - 1) * n * (2 * n - 1) / 6;
  } else {
    for (std::size_t j = 0; j < positioned_key_count_; ++j) {
      if (!seen.sees(j)) continue;
      const double place = to_double(j) - centre;
      ++keys, sum += place, squares += place * place;
    }
  }
  return {keys * uniform_weight,         t * keys * uniform_weight, sum * uniform_weight,
          t * t * keys * uniform_weight, squares * uniform_weight,  t * sum * uniform_weight};
}

void RowMeasures::add_repeats(const MeasuredRow& row, const auto* weights, const Seen& seen,
                              WeightTotals& totals) const {
  double same = 0, next = 0, same_if_equal = 0, next_if_equal = 0;
  bool has_same = false, has_next = false;
  for (std::size_t j : repeats_of(row.b).keys_of(row.t)) {
    if (static_cast<std::ptrdiff_t>(j) >= row.p) break;
    // Weight on key 0 may be a sink's.
    if (j > 0) same += weights[j], same_if_equal += seen.equal(j), has_same = true;
    // The key that follows must not be the query itself, and must have a position.
    if (static_cast<std::ptrdiff_t>(j) + 1 < row.p && j + 1 < positioned_key_count_)
      next += weights[j + 1], next_if_equal += seen.equal(j + 1), has_next = true;
  }
  if (has_same) totals.duplicate.add(same, same_if_equal);
  if (has_next) totals.induction.add(next, next_if_equal);
}

/// Adds the row to the totals for a causal map, which has no weight after the query.
template <class T>
void RowMeasures::add_if_causal(const MeasuredRow& row, const T* weights, RowTotals& totals) const {
  const std::size_t keys = static_cast<std::size_t>(row.p) + 1;
  totals.looks_ahead |=
      !std::all_of(weights + keys, weights + dims_.S_all, [](T w) { return w == 0; });
  if (totals.looks_ahead || keys == 1) return;
  const auto [first, last] = window_of(row.b, row.t);
  const RowSums sums = row_sums(weights, keys, T(1) / static_cast<T>(keys));
  add(row, weights, {keys, std::min(last, keys) - first, 0, keys, nullptr},
      std::isnan(sums.sum) ? sums.sum : sums.overlap, totals.causal);
}

template <class T> void RowMeasures::add(const MeasuredRow& row, const T* weights, const Seen& seen,
                                         double overlap, WeightTotals& totals) const {
  totals.entropy.add(row.entropy);
  totals.effective_keys.add(std::exp(row.entropy));
  totals.entropy_share.add(row.entropy / std::log(to_double(seen.keys)));
  totals.uniformity.add(overlap);
  totals.one_key.add(row.max > one_key_threshold ? 1 : 0);
  totals.confidence.add(row.max);
  totals.sink_share.add(static_cast<double>(weights[0]) + (layer_.sinks.empty() ? 0 : 1 - row.sum));
  totals.moments.add(row.moments);
  totals.uniform_moments.add(uniform_moments(row, seen));
  if (row.max > totals.max || (std::isnan(row.max) && !std::isnan(totals.max))) {
    totals.max = row.max, totals.max_batch = row.b, totals.max_query = row.t;
    const auto largest = std::find_if(weights, weights + dims_.S_all, [&](T weight) {
      return static_cast<double>(weight) == row.max || std::isnan(weight);
    });
    // Extra and zero keys are numbered as in the text alone, without the padding before them.
    const auto key = static_cast<std::size_t>(largest - weights);
    totals.max_key =
        key < positioned_key_count_ ? key : key - positioned_key_count_ + keys_of(layer_, row.b);
  }
  add_places(row, weights, seen, totals);
}

template <class T> void RowMeasures::add_places(const MeasuredRow& row, const T* weights,
                                                const Seen& seen, WeightTotals& totals) const {
  const auto add_key = [&](Score& score, std::size_t j) { score.add(weights[j], seen.equal(j)); };
  add_key(totals.first, 0);
  const std::optional<std::size_t> last_key = last_keys_[row.b * dims_.H + row.h];
  const auto keys = static_cast<std::ptrdiff_t>(positioned_key_count_);
  if (last_key && seen.sees(*last_key) &&
      !(positioned_ && row.p == static_cast<std::ptrdiff_t>(*last_key)))
    add_key(totals.last, *last_key);
  Score separator;
  for (std::size_t j : separators_[text_of(row.b)])
    if (seen.sees(j)) add_key(separator, j);
  if (separator.rows > 0) totals.separator.add(separator.sum, separator.uniform);
  if (!positioned_) return;
  totals.distance.add(row.distance);
  const auto add_at = [&](Score& score, std::ptrdiff_t j) {
    if (j >= 0 && j < keys) add_key(score, static_cast<std::size_t>(j));
  };
  add_at(totals.self, row.p);
  add_at(totals.previous, row.p - 1);
  if (row.p + 1 >= 0 && row.p + 1 < keys && seen.sees(static_cast<std::size_t>(row.p + 1)))
    add_at(totals.next, row.p + 1);
  const auto [first, last] = window_of(row.b, row.t);
  double near = 0;
  for (std::size_t j = first; j < last; ++j) near += static_cast<double>(weights[j]);
  totals.window.add(near, to_double(seen.in_window) / to_double(seen.keys));
  if (repeats_of(row.b).known()) add_repeats(row, weights, seen, totals);
}

template <class T>
void RowMeasures::measure_row(const Slice& block, std::size_t i, const T* row, BlockSums& part) {
  const std::size_t b = block.batch, h = block.head, t = block.token + i, S = dims_.S_all;
  std::uint8_t& attends = attends_[(b * dims_.H + h) * dims_.T + t];
  RowTotals& totals = part.totals;
  // Computed weights are 0 outside the visible keys; given ones may be anything.
  const Visible visible =
      weights_are_given_ ? Visible{0, keys_of(layer_, b)} : visible_keys(layer_, b, t);
  const std::ptrdiff_t p = layer_.query_position(b, t);
  const auto signed_first = static_cast<std::ptrdiff_t>(visible.first),
             signed_last = static_cast<std::ptrdiff_t>(visible.last);
  // Up to the query's own position, after it, and the keys without one.
  const auto middle = static_cast<std::size_t>(
      positioned_ ? std::clamp(p + 1, signed_first, signed_last) : signed_last);
  const std::pair<std::size_t, std::size_t> runs[] = {
      {visible.first, middle}, {middle, visible.last}, {positioned_key_count_, S}};

  const Seen seen = seen_by(b, h, t);
  attends = seen.keys > 0 || weights_are_given_;
  const T uniform_weight = seen.keys == 0 ? T(0) : T(1) / static_cast<T>(seen.keys);
  MeasuredRow measured{b, h, t, p};
  double sum = 0, overlap = 0;
  const auto [middle_row, centre] = middle_of(b);
  const double row_number = to_double(t) - middle_row;
  for (const auto& [first, last] : runs) {
    if (first == last) continue;
    const RowSums sums = row_sums(row + first, last - first, uniform_weight);
    sum += sums.sum, measured.entropy += sums.entropy, overlap += sums.overlap;
    measured.max = larger(static_cast<double>(row_max(row + first, last - first)), measured.max);
    if (first == positioned_key_count_) continue;
    const double from_query = to_double(first) - static_cast<double>(p),
                 from_centre = to_double(first) - centre;
    measured.distance += std::fabs(from_query * sums.sum + sums.first);
    const double j = from_centre * sums.sum + sums.first;
    Moments& moments = measured.moments;
    moments.weight += sums.sum, moments.t += row_number * sums.sum, moments.j += j;
    moments.tt += row_number * row_number * sums.sum, moments.tj += row_number * j;
    moments.jj += from_centre * (from_centre * sums.sum + 2 * sums.first) + sums.second;
  }
  measured.sum = sum;
  // Given values do not show which rows are fully masked. Such a row is all zeros, or all NaN as in
  // PyTorch's softmax of −∞.
  if ((starts_after_masks_ && sum == 0) ||
      (weights_are_given_ && std::isnan(sum) && all_nan(row, S)))
    attends = 0;
  const bool sees_several_keys = attends && seen.keys > 1;
  if (!cells_.empty())
    add_to_cells(block, t, selected_[t] && sees_several_keys ? row : nullptr, part);
  if (!selected_[t]) return;
  if (!attends) {
    ++totals.masked;
    return;
  }
  ++totals.attending;
  totals.row_sum_error = larger(std::fabs(sum - 1), totals.row_sum_error);
  if (may_be_causal_) add_if_causal(measured, row, totals);
  if (sees_several_keys) add(measured, row, seen, std::isnan(sum) ? sum : overlap, totals.weights);
}

template <class T> std::vector<T>& RowMeasures::cell_row_sums(BlockSums& part) {
  if constexpr (std::is_same_v<T, double>)
    return part.cell_row_sums_f64;
  else
    return part.cell_row_sums;
}

/// Adds a row of weights to the sums of its row of cells; null counts as zeros. The last query of a
/// row of cells writes its means.
template <class T>
void RowMeasures::add_to_cells(const Slice& block, std::size_t t, const T* row, BlockSums& part) {
  std::vector<T>& sums = cell_row_sums<T>(part);
  const CellGrid& grid = grids_[block.batch];
  const std::size_t S = computed_keys(layer_, block.batch), rows = layer_.length_of(block.batch),
                    place = t % grid.row_step;
  // Whether a map is causal is known only at its end. If it is, query 0 has only one key and is
  // left out of the comparison, so it has a row of cells of its own, in front.
  const std::size_t first_query_rows = may_be_causal_ ? 1 : 0;
  if (sums.empty()) sums.assign(S, T(0));
  float* const cells = &cells_[grid.of_head(block.head)];
  float* cell = cells;
  const auto put = [&](const T* of_row, std::size_t count) {
    for (std::size_t first = 0; first < S; first += grid.col_step, ++cell) {
      const std::size_t last = std::min(first + grid.col_step, S);
      double sum = 0;
      for (std::size_t j = first; j < last; ++j) sum += static_cast<double>(of_row[j]);
      *cell = static_cast<float>(sum / to_double(count * (last - first)));
    }
  };
  if (first_query_rows == 1 && t == 0) {
    if (row != nullptr) put(row, std::min(grid.row_step, rows));
    cell = cells;
  } else if (row != nullptr) {
    row_add(sums.data(), row, S);
  }
  if (place + 1 < grid.row_step && t + 1 < rows) return;
  cell += (first_query_rows + t / grid.row_step) * grid.cols;
  put(sums.data(), place + 1);
  const bool ends = (t + 1) % block_rows_ == 0 || t + 1 == rows;
  if (ends)
    sums = {};
  else
    std::fill(sums.begin(), sums.end(), T(0));
}

} // namespace mha
