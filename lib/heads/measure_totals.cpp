// Sums over the measured rows: shared between ranks, and turned into the measures of a head.

#include <mha/heads/measure_rows.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

std::vector<RowMeasures::Filled> RowMeasures::filled_by(const Plan& plan) const {
  std::vector<Filled> list;
  const std::size_t first_query_rows = may_be_causal_ ? 1 : 0;
  const std::size_t units = block_queries / block_rows_; // of a plan's block
  for (const auto& [batch, head, block] : plan.blocks) {
    if (head >= dims_.H) continue; // nothing to compute
    const CellGrid grid = cells_.empty() ? CellGrid{} : grids_[batch];
    const std::size_t rows = block_rows_ / grid.row_step, // of cells, in a block
        first = block == 0 ? 0 : std::min(first_query_rows + block * rows, grid.rows),
                      last = std::min(first_query_rows + (block + 1) * rows, grid.rows);
    for (std::size_t unit = block * units; unit < std::min((block + 1) * units, blocks_); ++unit)
      list.push_back({(batch * dims_.H + head) * blocks_ + unit,
                      grid.of_head(head) + first * grid.cols, (last - first) * grid.cols});
  }
  return list;
}

void RowMeasures::share(const Layer&, const Plan& part, ShareBytes& bytes) {
  for (const auto& [unit, first_cell, count] : filled_by(part)) {
    bytes.field(parts_[unit].totals);
    bytes.fields(std::span(cells_).subspan(first_cell, count));
  }
}

double RowMeasures::similarity(std::size_t a, std::size_t b, std::size_t first, std::size_t last,
                               bool causal) const {
  double aa = 0, bb = 0, ab = 0;
  // Query 0 of a map that may be causal has cells of its own in front of the others.
  for (std::size_t batch = first; batch < last; ++batch) {
    const CellGrid& grid = grids_[batch];
    const std::size_t front = may_be_causal_ ? grid.cols : 0;
    // A cell counts as many times as it covers numbers: texts of other lengths have other cells.
    const double covers = to_double(grid.row_step * grid.col_step);
    const float *x = &cells_[grid.of_head(a)], *y = &cells_[grid.of_head(b)];
    for (std::size_t i = front; i < grid.count(); ++i) {
      const bool with_front = !causal && i < 2 * front;
      const double u = x[i] + (with_front ? x[i - front] : 0.F),
                   v = y[i] + (with_front ? y[i - front] : 0.F);
      aa += covers * u * u, bb += covers * v * v, ab += covers * u * v;
    }
  }
  return ab / std::sqrt(aa * bb);
}

/// If one head sees later keys, all heads of the item may.
bool RowMeasures::looks_ahead(std::size_t batch) const {
  const auto begin = parts_.begin() + static_cast<std::ptrdiff_t>(batch * dims_.H * blocks_);
  return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(dims_.H * blocks_),
                     [](const BlockSums& part) { return part.totals.looks_ahead; });
}

namespace {

void fill_places(const WeightTotals& weights, HeadMeasures& head) {
  const auto put = [&](std::optional<double> PlaceMeasures::*member, const Score& score) {
    head.*member = score.value(), head.uniform.*member = score.expected();
    if (score.rows > 0) head.counts.*member = to_double(score.rows);
  };
  put(&PlaceMeasures::first, weights.first);
  put(&PlaceMeasures::self, weights.self);
  put(&PlaceMeasures::previous, weights.previous);
  put(&PlaceMeasures::next, weights.next);
  put(&PlaceMeasures::last, weights.last);
  put(&PlaceMeasures::separator, weights.separator);
  put(&PlaceMeasures::window, weights.window);
  put(&PlaceMeasures::induction, weights.induction);
  put(&PlaceMeasures::duplicate, weights.duplicate);
}

void fill_logits(const RowTotals& totals, HeadMeasures& head) {
  head.largest_logit = totals.largest_logit;
  const std::optional<double> logsumexp = totals.largest_logsumexp;
  if (!logsumexp) return;
  constexpr double largest_half = 65504;
  // A sum of infinities may be NaN; the logit shows it.
  const double largest = std::max(totals.largest_logit.value_or(-INFINITY), *logsumexp);
  head.overflow_f32 = largest > std::log(std::numeric_limits<float>::max()) ? 1.0 : 0.0;
  head.overflow_f16 = largest > std::log(largest_half) ? 1.0 : 0.0;
}

} // namespace

/// Fills in the other head with the most similar weights in batch items [first, last).
void RowMeasures::fill_nearest(std::size_t first, std::size_t last, bool causal,
                               HeadMeasures& head) const {
  for (std::size_t other = 0; !cells_.empty() && other < dims_.H; ++other) {
    if (other == head.head) continue;
    const double cosine = similarity(head.head, other, first, last, causal);
    if (std::isnan(cosine) || (head.similarity && cosine <= *head.similarity)) continue;
    head.similarity = cosine, head.nearest_head = to_double(other);
  }
}

void RowMeasures::fill(HeadMeasures& head) const {
  if (!contains(wanted_, Stage::weights)) return;
  RowTotals totals;
  const std::size_t first = head.batch.value_or(0), last = head.batch ? first + 1 : dims_.B;
  for (std::size_t b = first; b < last; ++b)
    for (std::size_t block = head.query.value_or(0);
         block < (head.query ? *head.query + 1 : blocks_); ++block)
      totals.add(parts_[(b * dims_.H + head.head) * blocks_ + block].totals);
  bool causal = may_be_causal_;
  for (std::size_t b = first; b < last && causal; ++b) causal = !looks_ahead(b);
  const WeightTotals& weights = causal ? totals.causal : totals.weights;
  head.entropy = weights.entropy.value();
  head.effective_keys = weights.effective_keys.value();
  head.entropy_share = weights.entropy_share.value();
  head.uniformity = weights.uniformity.value();
  head.one_key_rows = weights.one_key.value();
  head.confidence = weights.confidence.value();
  head.sink_share = weights.sink_share.value();
  head.distance = weights.distance.value();
  fill_places(weights, head);
  head.masked_rows = to_double(totals.masked);
  fill_logits(totals, head);
  if (totals.attending == 0) return;
  head.row_sum_error = totals.row_sum_error;
  head.rows = to_double(weights.entropy.rows);
  if (weights.entropy.rows == 0) return;
  head.diagonal = weights.moments.correlation();
  head.uniform.diagonal = weights.uniform_moments.correlation();
  head.max = weights.max;
  head.max_query = to_double(weights.max_query), head.max_key = to_double(weights.max_key);
  if (dims_.batched) head.max_batch = to_double(weights.max_batch);
  fill_nearest(first, last, causal, head);
}

} // namespace mha
