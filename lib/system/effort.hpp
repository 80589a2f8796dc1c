#pragma once
// Threads that a piece of work may use, and the seconds that it took.

#include <cstddef>

namespace mha {

struct Effort {
  std::size_t threads = 0; ///< 0: as many as pay
  double read_s = 0, compute_s = 0;
};

} // namespace mha
