#pragma once
// Whether the tests run under AddressSanitizer, ThreadSanitizer or an emulated processor, where
// they are many times slower: draw less.

#include <cstddef>

#if defined(MHA_SANITIZE) || defined(__SANITIZE_THREAD__) || defined(MHA_EMULATED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Of cases that go the same way through the code, every so manyth is run.
inline constexpr std::size_t one_of = sanitized ? 24 : 1;
