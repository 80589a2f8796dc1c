#pragma once
// The process: its stack, its allocator, and signals that end it.

#include <functional>

namespace mha::app {

/// Runs `work` with a large enough stack and returns its result. If the limit (ulimit -s) is too
/// small, the work runs on a thread with a stack of its own, as do the threads that it starts.
int run_on_own_stack(const std::function<int()>& work);

/// Keeps memory that one run frees in the process for the next run, as frameworks' arenas do:
/// otherwise the system clears the same pages again and again. For commands that run a model many
/// times. Larger blocks are kept in any case (system/memory.hpp).
void keep_freed_memory();

/// Installs handlers that remove temporary files when Ctrl-C, SIGTERM, a closed terminal, a time
/// limit or any other signal that can be caught ends the program; its exit code stays that of the
/// signal (130, 143, 129 … in a shell). If a mapped file becomes shorter while it is read, the
/// program prints a message and exits with 2. A file that is too large is an error of write().
void handle_signals();

} // namespace mha::app
