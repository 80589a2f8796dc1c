#pragma once
// The process: its stack, its allocator, and signals that end it.

#include <functional>

namespace mha::app {

/// Does the work, with stack enough for it where the limit (ulimit -s) leaves too little: then on a
/// thread, which has its own; so have the threads that it starts. Returns what the work returns.
int run_on_own_stack(const std::function<int()>& work);

/// Memory that one run gives back stays in the process for the next run, as frameworks' arenas keep
/// it: else the system clears the same pages again and again. For commands that run a model many
/// times. Larger blocks are kept anyway (system/memory.hpp).
void keep_freed_memory();

/// Ctrl-C, SIGTERM, a closed terminal, a limit of time and every other signal that can be caught
/// leave no temporary files behind, and then end the program as they always do (for a shell: 130,
/// 143, 129 …). A mapped file that becomes shorter while it is
/// read is a message and exit code 2. Too large a file is an error of write().
void handle_signals();

} // namespace mha::app
