#pragma once
// Work shared out over threads.

#include <cstddef>
#include <functional>
#include <vector>

namespace mha {

/// Runs `work(i)` for i in [0, count), on up to `threads` threads (the caller's among them; 0 = one
/// per core), handed out one at a time. The first exception stops the handing out and is rethrown
/// on the caller. `threads` 1 or count 1 starts no thread.
void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& work);
/// The same, and tells the work which worker does it, below workers_for(count, threads): what a
/// worker uses again and again is its own.
void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t, std::size_t)>& work);
/// How many workers a loop has at most.
std::size_t workers_for(std::size_t count, std::size_t threads);

/// Is told of each loop that has several workers: how many, and how long each of its tasks took.
class LoopTimer {
public:
  virtual ~LoopTimer() = default;
  virtual void loop(std::size_t workers, const std::vector<double>& seconds) = 0;
};
/// While there is one, the caller does all tasks of its loops, one after the other, and each is
/// timed: so the tasks of more threads than a machine has can be measured. Null: none. Not while a
/// loop is under way.
void time_loops(LoopTimer* timer);

/// Ends the threads that wait for loops, unless one is under way; the next loop starts new ones.
void end_waiting_threads();

/// The number of cores this process may use.
std::size_t core_count();
/// It shares them with other processes: from now on there are so many. Before the first loop.
void share_cores(std::size_t cores);

} // namespace mha
