#include "kernels/parallel.hpp"

#include "kernels/library_threads.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mha {

std::size_t core_count() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&cores)));
  // More cores than cpu_set_t has bits.
  return std::max(1u, std::thread::hardware_concurrency());
}

void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  use_one_library_thread();
  const std::size_t workers = std::min(threads == 0 ? core_count() : threads, count);
  if (workers == 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }

  std::atomic<std::size_t> next = 0;
  std::atomic<bool> stopped = false;
  std::exception_ptr first_error;
  std::mutex error_lock;
  const auto run = [&]() noexcept {
    use_one_library_thread();
    while (!stopped) {
      const std::size_t i = next++;
      if (i >= count) return;
      try {
        work(i);
      } catch (...) {
        const std::lock_guard hold(error_lock);
        if (!first_error) first_error = std::current_exception();
        stopped = true;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(workers - 1);
    // Where no more threads are to be had, the ones there are do the work.
    try {
      while (others.size() + 1 < workers) others.emplace_back(run);
    } catch (const std::system_error&) {
    }
    run();
  }
  if (first_error) std::rethrow_exception(first_error);
}

} // namespace mha
