#pragma once
// Numbers in memory of any alignment, as in files and packed texts.

#include <cstring>

namespace mha {

/// The number whose bytes begin at `at`, in the machine's byte order.
template <class Number> Number unaligned(const void* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

} // namespace mha
