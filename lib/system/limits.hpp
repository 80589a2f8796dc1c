#pragma once
// Limits of memory.

#include <mha/system/message.hpp>

#include <cstddef>
#include <string_view>

namespace mha {

/// The bytes that this process may have: the machine's memory, or less under a limit (ulimit -v, a
/// container); 0 if unknown.
std::size_t memory_limit();

/// The bytes that this process can still take without making the system swap: what the system
/// counts as available, or less under a container's limit; 0 if unknown.
std::size_t free_memory();

/// Throws Error "WHAT take 20.0 GiB, there are 15.6; CURE" if that many bytes do not fit, so that a
/// run is refused before it starts instead of being killed in the middle.
void require_memory(std::size_t bytes, const Message& what, const Message& cure);

} // namespace mha
