#pragma once
// Work shared out over threads.

#include <cstddef>
#include <functional>

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

/// Ends the threads that wait for loops, unless one is under way; the next loop starts new ones.
void end_waiting_threads();

/// The number of cores this process may use.
std::size_t core_count();
/// It shares them with other processes: from now on there are so many. Before the first loop.
void share_cores(std::size_t cores);

} // namespace mha
