#pragma once
// Passes that do not read each other's results.

#include <cstddef>
#include <functional>

namespace mha {

/// Runs `pass(i, threads)` for i in [0, count), each with the threads that it may use. The loops of
/// a pass over few rows are too short to keep several threads busy: such passes run side by side,
/// one thread each; others one after the other, each with all threads. `threads`: 0: as many as
/// pay. `rows`: of the stream, of all texts together.
/// `reached(n)`, on the caller's thread: n passes are done, all of them at last; null: nothing is
/// called.
void independent_passes(std::size_t count, std::size_t rows, std::size_t threads,
                        const std::function<void(std::size_t, std::size_t)>& pass,
                        const std::function<void(std::size_t)>& reached = {});

} // namespace mha
