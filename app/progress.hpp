#pragma once
// Progress of computations: a bar on a terminal, and operations counted for --timings.

#include "options.hpp"
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/watch.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

namespace mha::app {

/// Shows a progress bar for the following computations if standard error is a terminal. It appears
/// when a computation has taken a second and disappears when it ends. `layers`: the number of
/// layers that are computed one after the other.
void show_progress(std::size_t layers);

/// Removes the bar from the screen. Safe in a signal handler.
void clear_progress() noexcept;

/// Counts the operations that computations report during its lifetime, and passes them to the bar.
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
  /// The operations of matrix products, 2 m n k each.
  double operations() const { return operations_; }

private:
  Watcher* before_;
  std::atomic<double> operations_ = 0; ///< trials begin in several threads
};

/// The members of --timings for a command that computes layers more than once: the operations, and
/// the number of passes of the whole model, logits included, that they amount to.
MoreTimings passes_of(const WorkCount& work, const OpenedModel& model, std::size_t threads);

/// Excludes the layers that are made and computed during its lifetime from --timings: a pass that
/// is only run to measure a unit is not part of the command's work.
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
