#pragma once
// What the shared library shows: everything else is compiled with hidden visibility.

/// Stands before what the declared headers promise (docs/library.md).
#define MHA_API __attribute__((visibility("default")))
