#pragma once
// Stopwatches.

#include <chrono>

namespace mha {

/// Does the work, and tells the seconds that it took.
template <class Work> double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace mha
