#pragma once
// Parts of a weight that several ranks hold.

#include <cstddef>

namespace mha {

/// How many ranks people spread a model over.
inline constexpr std::size_t rank_counts[]{2, 3, 4, 8};

/// Place i of n, whose parts stand from the last to the first: where it comes from. Parts are equal
/// but for the last, which may be shorter, as padded vocabularies are.
inline auto reversed_parts(std::size_t n, std::size_t ranks) {
  const std::size_t part = (n + ranks - 1) / ranks, last = n - (ranks - 1) * part;
  return [=](std::size_t i) {
    if (i < last) return (ranks - 1) * part + i;
    return (ranks - 2 - (i - last) / part) * part + (i - last) % part;
  };
}
/// The same where every part is the first.
inline auto first_part(std::size_t n, std::size_t ranks) {
  return [part = n / ranks](std::size_t i) { return i % part; };
}

} // namespace mha
