#pragma once
// Rows of logits at some positions of a model's texts, compared as distributions.

#include <mha/layer/layer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace mha {

/// A position of a text.
using TextPosition = std::pair<std::size_t, std::size_t>; // text, position

/// The logits at some positions, in the precision of the model; of a model without a head what its
/// last norm makes, or its last stream.
class PredictionRows {
public:
  PredictionRows() = default;
  /// `ends` is what stands behind the last layer, with the stream that it reads.
  PredictionRows(const Layer& ends, const std::vector<TextPosition>& places, std::size_t threads);
  /// The rows of a matrix.
  explicit PredictionRows(Tensor rows);

  /// The number of rows, one a place, in their order.
  std::size_t count() const { return first_.size(); }
  /// The numbers of a row.
  std::size_t width() const { return width_; }
  double at(std::size_t row, std::size_t column) const;
  /// A row in double.
  std::vector<double> row(std::size_t row) const;
  /// Where the row is the largest; the first of several.
  std::size_t top(std::size_t row) const;

  /// Sums over a row z, in double: log Σ exp z, so that log p of a token is its logit less this;
  /// and Σ p z of a distribution p, 0 where none is given.
  struct Sums {
    double log_exp = 0, cross = 0;
  };
  Sums sums(std::size_t row, const double* p = nullptr) const;

private:
  Tensor values_; ///< of all positions that are asked of some text
  std::size_t width_ = 0;
  std::vector<std::size_t> first_; ///< of each row, its first number
};

/// log p of a token of a row.
double log_probability(const PredictionRows& rows, std::size_t row, std::size_t token);

/// The next-token distribution p of a row of logits, from which others diverge.
class Distribution {
public:
  Distribution(const PredictionRows& rows, std::size_t row);

  /// How another row of logits differs.
  struct Difference {
    double divergence = 0; ///< D(p ‖ q) = Σ p (log p − log q), in nats
    double log_sum = 0;    ///< of q: log q of a token is its logit less this
  };
  Difference to(const PredictionRows& rows, std::size_t row) const;
  /// log p of a token, by its logit.
  double log_p(double logit) const { return logit - log_sum_; }

private:
  std::vector<double> p_;
  double cross_ = 0, log_sum_ = 0; ///< Σ p z, log Σ exp z
};

} // namespace mha
