#include <mha/system/parallel.hpp>

#include <mha/system/clock.hpp>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mha {

namespace {

/// Hints to the processor that this is a spin loop.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `condition` is true for the value, and returns it. Spins first: the next step of a
/// layer usually follows at once, and waking a sleeping thread takes a tenth of a millisecond.
template <class Condition>
std::uint32_t wait_until(const std::atomic<std::uint32_t>& value, const Condition& condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(50);
  std::uint32_t now = value;
  while (!condition(now) && Clock::now() < end) {
    for (int i = 0; i < 16; ++i) pause();
    now = value;
  }
  for (; !condition(now); now = value) value.wait(now);
  return now;
}

/// Signals of the process are for the host's own threads: threads that start during the lifetime of
/// this object block them, except for faults, whose signals go to the faulting thread.
class SignalsBlocked {
public:
  SignalsBlocked() {
    sigset_t others;
    sigfillset(&others);
    for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      sigdelset(&others, fault);
    pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
  sigset_t before_;
};

/// A persistent thread pool: starting threads for each step would cost more than a small layer.
/// Helpers claim a place in a loop without a lock, because all of them arrive at once.
class Team {
public:
  static Team& get() { return *owner().team; }

  /// Runs `work` on the caller and on up to `helpers` threads, and returns when all have finished.
  /// Runs it on the caller alone if another loop has the team or no thread can be started.
  void run(std::size_t helpers, const std::function<void()>& work) {
    if (taken_.test_and_set()) return work();
    const std::unique_ptr<std::atomic_flag, void (*)(std::atomic_flag*)> turn(
        &taken_, [](std::atomic_flag* taken) { taken->clear(); });
    try {
      const SignalsBlocked blocked;
      while (threads_.size() < helpers) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
    }
    const auto places = static_cast<std::uint32_t>(std::min(helpers, threads_.size()));
    work_ = &work;
    finished_ = 0;
    places_ = places;
    places_.notify_all();
    work();
    // All tasks are taken, so threads that have not begun have nothing to do.
    const std::uint32_t begun = places - places_.exchange(0);
    wait_until(finished_, [begun](std::uint32_t finished) { return finished == begun; });
  }

  /// Ends the threads, unless a loop has the team.
  void dismiss() {
    if (taken_.test_and_set()) return;
    end_threads();
    taken_.clear();
  }

private:
  /// Owns the process's one team, which is never destroyed because a thread of the host may be in a
  /// loop while the process ends. A child of fork() has none of the team's threads and must not
  /// wait for them, so it abandons the team and starts with a new one.
  struct Owner {
    Team* team;
    Owner() : team(new Team) {
      pthread_atfork(nullptr, nullptr, [] { owner().team = new Team; });
    }
    ~Owner() { team->dismiss(); }
  };
  static Owner& owner() {
    static Owner only;
    return only;
  }

  static constexpr std::uint32_t no_more = ~0U; ///< as `places_`: the threads end

  void serve() {
    for (std::uint32_t places = 0; places != no_more;) {
      places = wait_until(places_, [](std::uint32_t open) { return open > 0; });
      if (places == no_more || !places_.compare_exchange_strong(places, places - 1)) continue;
      (*work_)();
      ++finished_;
      finished_.notify_one();
    }
  }

  void end_threads() {
    places_ = no_more;
    places_.notify_all();
    threads_.clear();
    places_ = 0;
  }

  std::atomic_flag taken_; ///< set while a loop has the team
  const std::function<void()>* work_ = nullptr;
  std::atomic<std::uint32_t> places_ = 0;   ///< still free for helpers in the running loop
  std::atomic<std::uint32_t> finished_ = 0; ///< helpers that have finished it
  std::vector<std::jthread> threads_;
};

} // namespace

namespace {

std::atomic<std::size_t> shared_cores = 0; // 0: all of them
std::atomic<LoopTimer*> loop_timer = nullptr;

/// Assigns the tasks to the workers in turn, as if all took equally long.
void run_timed(std::size_t count, std::size_t workers,
               const std::function<void(std::size_t, std::size_t)>& work, LoopTimer& timer) {
  std::vector<double> seconds(count);
  for (std::size_t i = 0; i < count; ++i) seconds[i] = seconds_of([&] { work(i, i % workers); });
  timer.loop(workers, seconds);
}

} // namespace

void time_loops(LoopTimer* timer) {
  loop_timer = timer;
}

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

void end_waiting_threads() {
  Team::get().dismiss();
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
  if (LoopTimer* const timer = loop_timer) return run_timed(count, workers, work, *timer);

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
