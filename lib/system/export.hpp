#pragma once
// Symbols that the shared library exports; all others have hidden visibility.

#if __cplusplus < 202002L
#error "mha is written in C++20: compile with -std=c++20 (GCC 12, Clang 14 and later)"
#endif

/// Marks the declarations of the stable interface (docs/library.md).
#define MHA_API __attribute__((visibility("default")))
