#pragma once
// How much memory there is.

#include <cstddef>
#include <string_view>

namespace mha {

/// What this process may have, in bytes: the machine's memory, or less where a limit (ulimit -v, a
/// container) says so; 0 if nothing is known.
std::size_t memory_limit();

/// Throws Error "WHAT take 20.0 GiB, there are 15.6; CURE" where that many bytes do not fit:
/// a run is refused before it starts, not killed in the middle.
void require_memory(std::size_t bytes, std::string_view what, std::string_view cure);

} // namespace mha
