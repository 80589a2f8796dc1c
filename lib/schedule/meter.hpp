#pragma once
// Progress of a computation.

#include <mha/schedule/tiles.hpp>

namespace mha {

/// Reports to the watcher how far the attention of a layer is.
class Meter {
public:
  /// The layer outlives this.
  Meter(const Layer& layer, const Plan& plan);

  /// Rows of one projection are done.
  void rows(std::size_t count) const;
  /// The queries of a block are done; the keys that causal masks and windows hide cost nothing.
  void queries(const QueryBlock& block) const;
  /// All of that, in operations.
  double work_of(const Plan& plan) const;

private:
  double work_of(const QueryBlock& block) const;

  const Layer& layer_;
  double per_row_ = 0, per_pair_ = 0; ///< operations
};

/// Reports that a product of so many rows with a matrix (in, out) is done.
void report_product(std::size_t rows, const Tensor& W);

/// As long as this is there, a computation runs: of attention, of the feed-forward, of logits. The
/// thread's checks (StopCheck) are made before it begins.
class Progress {
public:
  Progress(const Layer& layer, const Plan& plan);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
};

} // namespace mha
