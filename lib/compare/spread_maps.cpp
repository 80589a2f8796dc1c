#include <mha/compare/spread_maps.hpp>

#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace mha {

namespace {

/// Maps up to the first size are computed whole; of others, rows with about the second size.
constexpr std::size_t small_maps = std::size_t{1} << 20, many_numbers = std::size_t{1} << 21;

} // namespace

MapVariances::MapVariances(const Layer& layer, const RoundedSteps& by, Stage last, FactorRows q,
                           FactorRows k, std::size_t threads, KeptMaps& kept)
    : layer_(layer), by_(by), last_(last), q_(q), k_(k), threads_(threads), shared_(kept) {
  std::tie(kept_, summed_) = spacings_of(by);
  const Dims& d = layer.dims;
  together_ = std::clamp<std::size_t>(many_numbers / std::max<std::size_t>(d.S_all, 1), 1, 256);
  if (!layer.has_given(last)) steps_ = ancestors_of(layer, last, layer.given_set);
  steps_.add(last);
  for (const Stage stage : steps_)
    if (is_of(stage, {Section::scores, Section::softmax}) && !layer.has_given(stage))
      shown_.push_back(stage);
  for (const Stage stage : {Stage::exp, Stage::weights})
    if (contains(steps_, stage) && layer.has_given(stage) &&
        are_powers(stage, layer.given[index_of(stage)]))
      powers_.add(stage);
  is_small_ = d.B * d.H * d.T * d.S_all <= small_maps;
  std::vector<Stage> missing;
  for (const Stage stage : shown_)
    if (is_small_ && !shared_.values.contains(stage)) missing.push_back(stage);
  if (missing.empty()) return;
  const Trace values = trace(layer, missing, {}, threads);
  for (const Stage stage : missing) shared_.values[stage] = values.value(stage);
}

/// Rows of a stage that is given or was computed whole.
Squares MapVariances::values(Stage stage, const Rows& rows) {
  const Dims& d = layer_.dims;
  const std::size_t cols = info_of(stage).kind == Kind::row ? 1 : d.S_all;
  Squares grid(rows.count, cols);
  const Tensor& whole =
      layer_.has_given(stage) ? layer_.given[index_of(stage)] : shared_.values.at(stage);
  const std::size_t first = ((rows.batch * d.H + rows.head) * d.T + rows.first) * cols;
  convert(whole.raw() + first * size_of(whole.dtype()), whole.dtype(),
          reinterpret_cast<std::byte*>(grid.numbers.data()), DType::f64, grid.numbers.size());
  return grid;
}

MapVariances::Found MapVariances::of(const Rows& rows) {
  using enum Stage;
  const Dims& d = layer_.dims;
  std::map<Stage, Squares> values;
  for (const Stage stage : steps_)
    if (stage >= scores && stage <= weights && (layer_.has_given(stage) || is_small_))
      values.emplace(stage, this->values(stage, rows));
  if (!is_small_ && !shown_.empty()) {
    Selection part;
    std::vector<std::size_t> queries(rows.count);
    for (std::size_t i = 0; i < rows.count; ++i) queries[i] = rows.first + i;
    part.batch = IndexList::of_indices({rows.batch}, message("<batch>"));
    part.head = IndexList::of_indices({rows.head}, message("<head>"));
    part.query = IndexList::of_indices(queries, message("<query>"));
    const Trace kept = trace(layer_, shown_, part, threads_);
    for (const Stage stage : shown_) {
      Squares grid(rows.count, info_of(stage).kind == Kind::row ? 1 : d.S_all);
      grid.numbers = values_in_double(kept.value(stage));
      values.emplace(stage, std::move(grid));
    }
  }
  const bool product = makes(Stage::scores) && !layer_.has_given(Stage::scores) && q_.values;
  Squares variances = product ? kept_products(rows) : Squares(rows.count, d.S_all);
  parallel_for(rows.count, threads_, [&](std::size_t i) {
    RowValues y;
    for (const auto& [stage, grid] : values) y.rows[index_of(stage)] = grid.row(i);
    through_scores(y, rows.first + i, variances.row(i));
    if (last_ > masked) through_softmax(y, through_exp(y, variances.row(i)), variances.row(i));
  });
  if (info_of(last_).kind == Kind::row) { // in the first column
    Squares column(rows.count, 1);
    for (std::size_t i = 0; i < rows.count; ++i) column.numbers[i] = variances.row(i)[0];
    variances = std::move(column);
  }
  return {std::move(values.at(last_)), std::move(variances)};
}

/// products(), computed once in a small layer.
Squares MapVariances::kept_products(const Rows& rows) {
  if (!is_small_) return products(rows);
  const Dims& d = layer_.dims;
  if (shared_.products.empty())
    for (std::size_t b = 0; b < d.B; ++b)
      for (std::size_t h = 0; h < d.H; ++h)
        for (std::size_t first = 0; first < d.T; first += together_) {
          const Squares some = products({b, h, first, std::min(together_, d.T - first)});
          shared_.products.insert(shared_.products.end(), some.numbers.begin(), some.numbers.end());
        }
  Squares found(rows.count, d.S_all);
  std::copy_n(&shared_.products[((rows.batch * d.H + rows.head) * d.T + rows.first) * d.S_all],
              found.numbers.size(), found.numbers.begin());
  return found;
}

/// The variances of q kᵀ in these rows.
Squares MapVariances::products(const Rows& rows) const {
  const Dims& d = layer_.dims;
  const std::size_t n = d.d_k, g = kv_head_of(layer_, rows.head);
  Squares a(rows.count, n), of_q(rows.count, n), squares(n, d.S_all), of_k(n, d.S_all);
  for (std::size_t i = 0; i < rows.count; ++i)
    for (std::size_t c = 0; c < n; ++c) {
      const std::size_t at = ((rows.batch * d.T + rows.first + i) * d.H + rows.head) * n + c;
      a.row(i)[c] = (*q_.values)[at] * (*q_.values)[at], of_q.row(i)[c] = (*q_.variances)[at];
    }
  for (std::size_t j = 0; j < d.S_all; ++j)
    for (std::size_t c = 0; c < n; ++c) {
      const std::size_t at = ((rows.batch * d.S_all + j) * d.H_kv + g) * n + c;
      squares.row(c)[j] = (*k_.values)[at] * (*k_.values)[at];
      of_k.row(c)[j] = (*k_.variances)[at];
    }
  return variance_of_product(a, of_q, squares, &of_k, summed_, threads_);
}

void MapVariances::of_given(Stage stage, const double* y, std::size_t n, double* variance) const {
  const auto off = by_.off.find(stage);
  if (off != by_.off.end())
    variance_of_given(kept_, off->second, contains(powers_, stage), y, n, variance);
  else
    for (std::size_t j = 0; j < n; ++j) variance[j] = kept_.unless_held(y[j]);
  for (std::size_t j = 0; j < n; ++j)
    if (!std::isfinite(y[j])) variance[j] = 0; // hidden
}

/// scores … masked. Masked numbers have no error.
void MapVariances::through_scores(const RowValues& values, std::size_t query,
                                  double* variance) const {
  using enum Stage;
  const std::size_t n = layer_.dims.S_all;
  const double scale = layer_.scale() * layer_.temperature_of(query), cap = layer_.settings.softcap;
  const Spacing& kept = by_.scores ? kept_ : summed_;
  const std::size_t terms = layer_.relative_key.empty() ? 0 : layer_.dims.d_model + layer_.dims.d_k;
  const double* before = nullptr;
  for (const Stage stage : {Stage::scores, scaled, capped, biased, masked}) {
    const double* y = values[stage];
    if (!y) continue;
    if (layer_.has_given(stage)) {
      of_given(stage, y, n, variance), before = y;
      continue;
    }
    // What is added may be a product of q, which is one of x itself.
    for (std::size_t j = 0; stage == biased && before && terms > 0 && j < n; ++j)
      variance[j] += mha::of_sum(summed_, terms, 0, y[j] - before[j]) +
                     kept_.at_worst(y[j] - before[j]);
    for (std::size_t j = 0; j < n; ++j) {
      if (stage == Stage::scores)
        variance[j] += mha::of_sum(summed_, layer_.dims.d_k, 0, y[j]);
      else if (stage == scaled)
        variance[j] *= scale * scale;
      else if (stage == capped)
        variance[j] *= std::pow(1 - y[j] * y[j] / (cap * cap), 2);
      variance[j] = std::isfinite(y[j]) ? variance[j] + kept.of(y[j]) : 0;
    }
    before = y;
  }
}

/// row_max, shifted and exp, from masked. For later stages, the variances of exp relative to each
/// number. Returns the variance of the maximum, which all numbers share.
/// All known implementations compute softmax, with a row's maximum and sum, in float32. The
/// argument of exp is rounded once more if it is multiplied by log₂ e.
double MapVariances::through_exp(const RowValues& y, double* variance) const {
  using enum Stage;
  const std::size_t n = layer_.dims.S_all;
  const double *m = y[masked], *max = y[row_max], *e = y[exp];
  double of_max = 0;
  if (m && max && n > 0) of_max = variance[std::max_element(m, m + n) - m];
  if (is_given(row_max, y)) of_given(row_max, max, 1, &of_max);
  if (last_ == row_max) {
    variance[0] = of_max + summed_.of(*max);
    return 0;
  }
  if (is_given(shifted, y)) of_given(shifted, y[shifted], n, variance), of_max = 0;
  for (std::size_t j = 0; m && j < n; ++j)
    if (std::isfinite(m[j])) variance[j] += 2 * summed_.at_worst(m[j]);
  // Every exponential has the same maximum, which cancels with the sum.
  const bool shows_max = last_ == shifted || last_ == exp;
  for (std::size_t j = 0; shows_max && j < n; ++j) variance[j] += of_max;
  if (last_ == shifted) return 0;
  if (is_given(exp, y)) {
    of_given(exp, e, n, variance), of_max = 0;
    for (std::size_t j = 0; j < n; ++j) variance[j] = e[j] > 0 ? variance[j] / (e[j] * e[j]) : 0;
  } else {
    for (std::size_t j = 0; j < n; ++j) variance[j] += 4 * mha::of_sum(summed_, 1, 0, 1);
  }
  for (std::size_t j = 0; last_ == exp && j < n; ++j) variance[j] *= e[j] > 0 ? e[j] * e[j] : 0;
  return of_max;
}

/// The variance of the row's sum relative to it: each key's variance by its share. Without exp, the
/// shares come from the scores.
double MapVariances::of_row_sum(const RowValues& y, const double* variance) const {
  using enum Stage;
  const std::size_t n = layer_.dims.S_all;
  double own = 0, sum = 0, squares = 0;
  if (is_given(row_sum, y)) {
    of_given(row_sum, y[row_sum], 1, &own);
    return *y[row_sum] > 0 ? own / (*y[row_sum] * *y[row_sum]) : 0;
  }
  for (std::size_t j = 0; j < n; ++j) {
    const double share = y[weights]                  ? y[weights][j]
                         : y[exp]                    ? y[exp][j]
                         : y[masked] && y[logsumexp] ? std::exp(y[masked][j] - *y[logsumexp])
                                                     : 0;
    if (share > 0) sum += share, squares += share * share * variance[j];
  }
  return (sum > 0 ? squares / (sum * sum) : 0) + mha::of_sum(summed_, n, 0, 1);
}

/// row_sum, logsumexp and weights. Only row_sum still depends on the maximum.
void MapVariances::through_softmax(const RowValues& y, double of_max, double* variance) const {
  using enum Stage;
  if (last_ <= exp) return;
  const std::size_t n = layer_.dims.S_all;
  if (is_given(weights, y)) {
    of_given(weights, y[weights], n, variance);
    return;
  }
  const double of_row = of_row_sum(y, variance);
  if (last_ == row_sum) {
    variance[0] = *y[row_sum] * *y[row_sum] * (of_row + of_max) + summed_.of(*y[row_sum]);
    return;
  }
  if (last_ == logsumexp) {
    const double lse = *y[logsumexp];
    variance[0] = of_row + kept_.of(lse) + 2 * summed_.at_worst(y[row_max] ? *y[row_max] : lse);
    return;
  }
  for (std::size_t j = 0; j < n; ++j) {
    const double w = y[weights][j], others = of_row - w * w * variance[j];
    variance[j] = w > 0 ? w * w * ((1 - w) * (1 - w) * variance[j] + std::max(0.0, others)) +
                              kept_.at_worst(w)
                        : 0;
  }
}

} // namespace mha
