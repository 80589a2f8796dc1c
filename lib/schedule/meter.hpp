#pragma once
// How far a computation is, for those who wait for it.

#include <mha/schedule/tiles.hpp>

namespace mha {

/// What one computation tells the watcher.
class Meter {
public:
  Meter(const Layer& layer, const Plan& plan);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  /// Rows of one projection are done.
  void rows(std::size_t count) const;
  /// The queries of a block are done; the keys that causal masks and windows hide cost nothing.
  void queries(const QueryBlock& block) const;

private:
  double work_of(const QueryBlock& block) const;

  const Layer& layer_;
  double per_row_ = 0, per_pair_ = 0; ///< operations
};

} // namespace mha
