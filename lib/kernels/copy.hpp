#pragma once
// Copying what is not read again soon.

#include <cstddef>

namespace mha {

/// memcpy. Many bytes go past the caches, where they would drive out what is being worked on, and
/// be read from memory first only to be overwritten.
void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes);

} // namespace mha
