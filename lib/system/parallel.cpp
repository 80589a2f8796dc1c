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

/// Tells the processor that a loop waits.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// The value once `condition` is true of it. First without giving up the core: the next step of a
/// layer follows at once, and to sleep and be woken takes a tenth of a millisecond.
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

/// Signals of the process are for its own threads: while one of these is there, what starts does
/// not get them. A fault's signal goes to the thread that made it.
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

/// Threads that wait for work between loops: to start them anew for each step of a small layer
/// would take longer than the layer. A loop has places for helpers, which they take without a lock:
/// all of them come at once.
class Team {
public:
  static Team& get() { return *owner().team; }

  /// Runs `work` on the caller and on up to `helpers` threads, until all are through with it. Only
  /// on the caller where another loop has the team, or no more threads are to be had.
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
    // The work is handed out: a thread that has not begun need not.
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
  /// The process's one team, which is never destroyed: a thread of the host may be in a loop while
  /// the process ends. A child of fork() has none of its threads, nor may it wait for them: it
  /// leaves the team where it is and begins with a new one.
  struct Owner {
    Team* team;
    Owner() : team(new Team) {
      pthread_atfork(nullptr, nullptr, [] { owner().team = new Team; });
    }
    ~Owner() { team->dismiss(); }
  };
  static Owner& owner() {
    static Owner one;
    return one;
  }

  static constexpr std::uint32_t no_more = ~0U; ///< places, for threads that are to end

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

  std::atomic_flag taken_; ///< by the loop that has the team
  const std::function<void()>* work_ = nullptr;
  std::atomic<std::uint32_t> places_ = 0;   ///< for helpers, of the loop that is under way
  std::atomic<std::uint32_t> finished_ = 0; ///< helpers that are through with it
  std::vector<std::jthread> threads_;
};

} // namespace

namespace {

std::atomic<std::size_t> shared_cores = 0; // 0: all of them
std::atomic<LoopTimer*> loop_timer = nullptr;

/// Every worker has its turn, as if they took the tasks at the same pace.
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
