#pragma once
// Progress of computations, and checks that may end them.

#include <functional>

namespace mha {

/// Receives the progress of computations. Work is counted in operations of the matrix products,
/// 2 m n k each, which is a good estimate of the time.
class Watcher {
public:
  virtual ~Watcher() = default;
  /// A computation of `work` operations begins.
  virtual void begin(double work) = 0;
  /// `done` more operations are done. Called from several threads.
  virtual void advance(double done) = 0;
  /// The computation has ended, with or without an error.
  virtual void end() = 0;
};

/// Sets the watcher of every computation of this process; nullptr, the default, removes it. The
/// watcher must outlive the computations.
void watch_computations(Watcher* watcher);

/// The current watcher, or nullptr.
Watcher* watcher();

/// A check that this thread makes before each computation of a layer or of logits during the
/// lifetime of the object; it ends the computation by an exception. Nested checks are all made, the
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
