#pragma once
// Work shared out over threads.

#include <cstddef>
#include <functional>
#include <vector>

namespace mha {

/// Runs `work(i)` for i in [0, count) on up to `threads` threads (the caller's among them; 0 = one
/// per core), each of which takes one task at a time. After an exception no further task starts,
/// and the first exception is rethrown on the caller. `threads` 1 or count 1 starts no thread.
void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& work);
/// Runs `work(i, worker)`, where `worker` is below workers_for(count, threads), so that each worker
/// can have scratch memory of its own.
void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t, std::size_t)>& work);
/// How many workers a loop has at most.
std::size_t workers_for(std::size_t count, std::size_t threads);

/// Receives, for each loop with several workers, their number and the seconds of each task.
class LoopTimer {
public:
  virtual ~LoopTimer() = default;
  virtual void loop(std::size_t workers, const std::vector<double>& seconds) = 0;
};
/// Sets the timer; null removes it. While there is one, the caller does and times all tasks of its
/// loops, one after the other, so that loops of more threads than the machine has can be measured.
/// Must not be called while a loop runs.
void time_loops(LoopTimer* timer);

/// Ends the waiting threads unless a loop runs; the next loop starts new ones.
void end_waiting_threads();

/// The number of cores this process may use.
std::size_t core_count();
/// Makes core_count() return this number, because the process shares the cores with others. Must be
/// called before the first loop.
void share_cores(std::size_t cores);

} // namespace mha
