#pragma once
// The time that work takes.

#include <chrono>
#include <cstddef>

namespace mha {

/// Does the work, and returns the seconds that it took.
template <class Work> double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Threads that a piece of work may use, and the seconds that it took.
struct Effort {
  std::size_t threads = 0; ///< 0: as many as pay
  double read_s = 0, compute_s = 0;
};

} // namespace mha
