#pragma once
// Limits of memory.

#include <mha/system/message.hpp>

#include <cstddef>
#include <string_view>

namespace mha {

/// What this process may have, in bytes: the machine's memory, or less where a limit (ulimit -v, a
/// container) says so; 0 if nothing is known.
std::size_t memory_limit();

/// How much more memory this process can take without others losing theirs, in bytes: what the
/// system counts as available, or less under a container's limit; 0 if nothing is known.
std::size_t free_memory();

/// Throws Error "WHAT take 20.0 GiB, there are 15.6; CURE" where that many bytes do not fit:
/// a run is refused before it starts, not killed in the middle.
void require_memory(std::size_t bytes, const Message& what, const Message& cure);

} // namespace mha
