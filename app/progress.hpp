#pragma once
// How far computations are: a bar on a terminal, and operations counted for --timings.

#include "options.hpp"
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/watch.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

namespace mha::app {

/// Shows from here on how far computations are: after a second of one, on a terminal, gone when it
/// ends. `layers` is how many are to be computed one after the other.
void show_progress(std::size_t layers);

/// Takes the bar off the screen. May be called by a signal handler.
void clear_progress() noexcept;

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
  std::atomic<double> operations_ = 0; ///< trials begin in several threads
};

/// What --timings says of a command that computes layers more than once: the operations, and how
/// many passes of the whole model, with its logits, they are.
MoreTimings passes_of(const WorkCount& work, const OpenedModel& model, std::size_t threads);

/// Leaves out of --timings which layers are made and computed while it lives: a pass that is the
/// unit of others is none of the command's.
class Uncounted {
public:
  explicit Uncounted(const Sources& sources)
      : counts_(sources.counts()), made_(counts_->made), computed_(counts_->computed) {}
  ~Uncounted() { counts_->made = made_, counts_->computed = computed_; }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

private:
  std::shared_ptr<LayerCounts> counts_;
  std::size_t made_, computed_;
};

} // namespace mha::app
