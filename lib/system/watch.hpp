#pragma once
// Watches of computations' progress.

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

/// The watcher of every computation of this process; nullptr, as it is at first: none. The watcher
/// outlives the computations.
void watch_computations(Watcher* watcher);

/// The one that is told, or nullptr.
Watcher* watcher();

} // namespace mha
