#pragma once
// Counts the operations of computations, for --timings.

#include <mha/system/watch.hpp>

namespace mha::app {

/// While it lives, it counts what computations are said to take, and passes it on to the bar.
class WorkCount : public Watcher {
public:
  WorkCount() : before_(watcher()) { watch_computations(this); }
  ~WorkCount() override { watch_computations(before_); }
  WorkCount(const WorkCount&) = delete;
  WorkCount& operator=(const WorkCount&) = delete;

  void begin(double work) override {
    operations_ += work;
    if (before_) before_->begin(work);
  }
  void advance(double done) override {
    if (before_) before_->advance(done);
  }
  void end() override {
    if (before_) before_->end();
  }
  /// Of the matrix products, 2 m n k each.
  double operations() const { return operations_; }

private:
  Watcher* before_;
  double operations_ = 0;
};

} // namespace mha::app
