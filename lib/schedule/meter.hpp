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
  /// Queries [begin, end) of one head are done.
  void queries(std::size_t begin, std::size_t end) const;

private:
  double work_of_queries(std::size_t begin, std::size_t end) const;

  const Layer& layer_;
  double per_row_ = 0, per_pair_ = 0; ///< operations
};

} // namespace mha
