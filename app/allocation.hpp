#pragma once
// The process's allocator: what it does with memory that is given back.

namespace mha::app {

/// Memory that one run gives back stays in the process for the next run, as frameworks' arenas keep
/// it: else the system clears the same pages again and again. For commands that run a model many
/// times. Larger blocks are kept anyway (system/memory.hpp).
void keep_freed_memory();

} // namespace mha::app
