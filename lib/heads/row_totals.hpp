#pragma once
// Totals over rows of weights, from which the measures of a head are computed.

#include <mha/layer/layer.hpp>

#include <limits>
#include <optional>
#include <span>

namespace mha {

/// A sum over some rows.
struct RowMean {
  double sum = 0;
  std::size_t rows = 0;
  void add(double value) { sum += value, ++rows; }
  void add(const RowMean& later) { sum += later.sum, rows += later.rows; }
  std::optional<double> value() const {
    return rows == 0 ? std::nullopt : std::optional(sum / static_cast<double>(rows));
  }
};

/// Weighted sums of query number t and key number j, from which their correlation follows.
struct Moments {
  double weight = 0, t = 0, j = 0, tt = 0, jj = 0, tj = 0;
  void add(const Moments& later);
  /// Nothing if all weight is in one row or one column.
  std::optional<double> correlation() const;
};

/// A sum of the weight that some rows put on some keys, and of the weight there if each row had
/// equal weights on the keys that it may see.
struct Score {
  double sum = 0, uniform = 0;
  std::size_t rows = 0;
  void add(double value, double if_uniform) { sum += value, uniform += if_uniform, ++rows; }
  void add(const Score& later) { sum += later.sum, uniform += later.uniform, rows += later.rows; }
  std::optional<double> value() const { return mean(sum); }
  std::optional<double> expected() const { return mean(uniform); }

private:
  std::optional<double> mean(double of) const {
    return rows == 0 ? std::nullopt : std::optional(of / static_cast<double>(rows));
  }
};

/// The sums over the rows that may see more than one key: a row of one key has no choice.
struct WeightTotals {
  RowMean entropy, effective_keys, entropy_share, uniformity, one_key, distance;
  RowMean confidence, sink_share;
  Score first, self, previous, next, last, separator, window, induction, duplicate;
  Moments moments, uniform_moments;
  double max = -std::numeric_limits<double>::infinity(); ///< NaN if a weight is NaN
  std::size_t max_batch = 0, max_query = 0, max_key = 0;

  void add(const WeightTotals& later);
};

/// Totals over the rows of a block, or of a head.
struct RowTotals {
  std::size_t masked = 0;
  WeightTotals weights;
  /// The totals if the map is causal, and whether a key after its query has weight: a given map
  /// does not show what a query may see.
  WeightTotals causal;
  bool looks_ahead = false;
  double row_sum_error = 0; ///< over all rows that attend
  std::size_t attending = 0;
  std::optional<double> largest_logit, largest_logsumexp;

  void add(const RowTotals& later);
};

inline double to_double(std::size_t count) {
  return static_cast<double>(count);
}
/// Keeps the largest value so far.
void keep_larger(std::optional<double>& largest, double value);
/// The larger one; NaN wins.
double larger(double a, double b);

/// The keys with the same token as a query.
class Repeats {
public:
  Repeats(const Layer& layer, std::size_t batch);
  bool known() const { return !keys_of_query_.empty(); }
  /// The keys whose token is query t's, in order; none if the query has no label.
  std::span<const std::size_t> keys_of(std::size_t t) const {
    if (t >= keys_of_query_.size()) return {};
    return keys_[keys_of_query_[t]];
  }

private:
  std::vector<std::vector<std::size_t>> keys_; ///< by token
  std::vector<std::size_t> keys_of_query_;     ///< the token of each labelled query
};

/// Whether queries have a place among the keys: they come from the same tokens, or causal or a
/// window gives their place.
bool queries_are_among_keys(const Layer& layer);

} // namespace mha
