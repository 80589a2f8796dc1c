#pragma once
// Whether the tests run under AddressSanitizer, where they are many times slower: draw less.

#if defined(MHA_SANITIZE)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
