#pragma once
// Rows of logits at some positions of a model's texts, compared as distributions.

#include <mha/layer/layer.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace mha {

/// A text and a position in it.
using TextPosition = std::pair<std::size_t, std::size_t>; // text, position

/// The positions of some places, each once, in ascending order.
std::vector<std::size_t> positions_of(const std::vector<TextPosition>& places);

/// Whether logits have a softmax: none is NaN or +∞, and not all are −∞ (which rules a token out).
bool has_softmax(std::span<const double> logits);

/// The logits of one place, in the precision of the model. Does not own them.
class PredictionRow {
public:
  PredictionRow(const std::byte* first, DType dtype, std::size_t width)
      : first_(first), dtype_(dtype), width_(width) {}

  std::size_t width() const { return width_; }
  DType dtype() const { return dtype_; }
  std::span<const std::byte> bytes() const { return {first_, width_ * size_of(dtype_)}; }
  double at(std::size_t column) const;
  std::vector<double> in_double() const;
  /// The first column with the largest number.
  std::size_t top() const;

  /// Sums over the row z, in double: log Σ exp z, so that log p of a token is its logit minus this;
  /// and Σ p z for a distribution p, or 0 without one.
  struct Sums {
    double log_exp = 0, cross = 0;
  };
  Sums sums(const double* p = nullptr) const;

private:
  const std::byte* first_;
  DType dtype_;
  std::size_t width_;
};

/// Gets the index of a place and its row, which is valid only during the call.
using VisitPrediction = std::function<void(std::size_t place, const PredictionRow& row)>;

/// Calls `visit` with each place's row as the rows are computed, from several threads and in any
/// order. The rows are the logits; without a head, the result of the last norm, or the last stream.
/// `ends` is the model after the last layer, with the stream that it reads.
void visit_predictions(const Layer& ends, const std::vector<TextPosition>& places,
                       std::size_t threads, const VisitPrediction& visit);

/// The rows of some places, kept.
class PredictionRows {
public:
  PredictionRows() = default;
  /// Computes the rows as visit_predictions does.
  PredictionRows(const Layer& ends, const std::vector<TextPosition>& places, std::size_t threads);
  /// The rows of a matrix.
  explicit PredictionRows(Tensor rows) : values_(std::move(rows)) {}

  /// The number of rows, one for each place, in order.
  std::size_t count() const { return values_.empty() ? 0 : values_.shape()[0]; }
  PredictionRow operator[](std::size_t row) const {
    const std::size_t width = values_.shape()[1];
    return {values_.raw() + row * width * size_of(values_.dtype()), values_.dtype(), width};
  }

private:
  Tensor values_; ///< places, columns
};

/// log p of a token of a row.
double log_probability(const PredictionRow& row, std::size_t token);

/// The next-token distribution p of a row of logits, from which others diverge.
class Distribution {
public:
  explicit Distribution(const PredictionRow& row);

  /// How another row of logits differs.
  struct Difference {
    double divergence = 0; ///< D(p ‖ q) = Σ p (log p − log q), in nats
    double log_sum = 0;    ///< of q: log q of a token is its logit minus this
  };
  Difference to(const PredictionRow& other) const;
  /// log p of a token, by its logit.
  double log_p(double logit) const { return logit - log_sum_; }

private:
  std::vector<double> p_;
  double cross_ = 0, log_sum_ = 0; ///< Σ p z, log Σ exp z
};

} // namespace mha
