#include <mha/system/parallel.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mha {

namespace {

/// Tells the processor that a loop waits.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits a little without giving up the core: to sleep and be woken takes a tenth of a millisecond.
template <class Condition> void spin_until(const Condition& condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(50);
  while (!condition() && Clock::now() < end)
    for (int i = 0; i < 16; ++i) pause();
}

/// Threads that wait for work between loops: to start them anew for each step of a small layer
/// would take longer than the layer.
class Team {
public:
  static Team& get() {
    static Team team;
    return team;
  }

  /// Runs `work` on the caller and on up to `helpers` threads, until all are through with it. Only
  /// on the caller where another loop has the team, or no more threads are to be had.
  void run(std::size_t helpers, const std::function<void()>& work) {
    if (taken_.test_and_set()) return work();
    const std::unique_ptr<std::atomic_flag, void (*)(std::atomic_flag*)> turn(
        &taken_, [](std::atomic_flag* taken) { taken->clear(); });
    {
      const std::lock_guard hold(state_);
      try {
        while (threads_.size() < helpers)
          threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
      } catch (const std::system_error&) {
      }
      work_ = &work;
      open_ = std::min(helpers, threads_.size());
    }
    wake_.notify_all();
    work();
    {
      const std::lock_guard hold(state_);
      open_ = 0; // the work is handed out: who has not begun need not
    }
    spin_until([this] { return running_ == 0; });
    std::unique_lock hold(state_);
    done_.wait(hold, [this] { return running_ == 0; });
  }

private:
  void serve(const std::stop_token& stop) {
    const auto called = [this] { return open_ > 0; };
    std::unique_lock hold(state_);
    while (wake_.wait(hold, stop, called)) {
      --open_;
      ++running_;
      const std::function<void()>& work = *work_;
      hold.unlock();
      work();
      hold.lock();
      if (--running_ == 0) done_.notify_one();
      hold.unlock();
      spin_until(called); // the next step of a layer follows at once
      hold.lock();
    }
  }

  std::atomic_flag taken_; ///< by the loop that has the team
  std::mutex state_;       ///< guards what follows
  std::condition_variable_any wake_, done_;
  const std::function<void()>* work_ = nullptr;
  std::atomic<std::size_t> open_ = 0, running_ = 0; ///< places for helpers; helpers at work
  std::vector<std::jthread> threads_;               ///< last, so that they end before what they use
};

} // namespace

namespace {

std::atomic<std::size_t> shared_cores = 0; // 0: all of them

} // namespace

void share_cores(std::size_t cores) {
  shared_cores = cores;
}

std::size_t core_count() {
  if (const std::size_t cores = shared_cores; cores > 0) return cores;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&cores)));
  // More cores than cpu_set_t has bits.
  return std::max(1u, std::thread::hardware_concurrency());
}

std::size_t workers_for(std::size_t count, std::size_t threads) {
  return std::min(threads == 0 ? core_count() : threads, count);
}

void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& work) {
  parallel_for(count, threads, [&](std::size_t i, std::size_t) { work(i); });
}

void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t, std::size_t)>& work) {
  if (count == 0) return;
  const std::size_t workers = workers_for(count, threads);
  if (workers == 1) {
    for (std::size_t i = 0; i < count; ++i) work(i, 0);
    return;
  }

  std::atomic<std::size_t> next = 0, joined = 0;
  std::atomic<bool> stopped = false;
  std::exception_ptr first_error;
  std::mutex error_lock;
  const auto run = [&]() noexcept {
    const std::size_t worker = joined++;
    while (!stopped) {
      const std::size_t i = next++;
      if (i >= count) return;
      try {
        work(i, worker);
      } catch (...) {
        const std::lock_guard hold(error_lock);
        if (!first_error) first_error = std::current_exception();
        stopped = true;
      }
    }
  };
  Team::get().run(workers - 1, run);
  if (first_error) std::rethrow_exception(first_error);
}

} // namespace mha
