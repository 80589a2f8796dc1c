#pragma once
// Libraries that thread by OpenMP, kept to one thread: with more, their results' last bits change.

#include <cstddef>

namespace mha {

/// Makes libraries use one thread when they are called from this thread. Cheap after the first
/// call.
void use_one_library_thread();

/// Lets them use `threads` threads when they are called from this thread, while it lives: to
/// measure how fast they can be.
class LibraryThreads {
public:
  explicit LibraryThreads(std::size_t threads);
  ~LibraryThreads();
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;
};

} // namespace mha
