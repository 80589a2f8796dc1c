#pragma once
// How far a computation is, for those who wait for it.

#include "plan.hpp"

namespace mha {

/// Hears how far computations are. Work is counted in operations of the matrix products, 2 m n k
/// each: a good guess of the time, not an account of it.
class Watcher {
public:
  virtual ~Watcher() = default;
  /// A computation of so many operations begins.
  virtual void begin(double work) = 0;
  /// So many of them are done. Called from several threads.
  virtual void advance(double done) = 0;
  /// It has ended, well or by an error.
  virtual void end() = 0;
};

/// Whom every computation of this process tells; nullptr for nobody, as it is at first. The watcher
/// outlives the computations.
void watch_computations(Watcher* watcher);

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
