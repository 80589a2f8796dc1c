#pragma once
// Watches of computations' progress, and checks that may end them.

#include <functional>

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

/// A check that this thread makes before each computation, of a layer or of logits, as long as the
/// object lives: an exception of it ends what the thread computes. Of nested ones each is made, the
/// innermost first.
class StopCheck {
public:
  explicit StopCheck(std::function<void()> check);
  ~StopCheck();
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

  /// Makes the checks of this thread.
  static void make_all();

private:
  std::function<void()> check_;
  const StopCheck* outer_;
};

} // namespace mha
