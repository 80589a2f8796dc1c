#pragma once
// The parts of a weight split over several ranks.

#include <cstddef>

namespace mha {

/// Usual numbers of ranks.
inline constexpr std::size_t rank_counts[]{2, 3, 4, 8};

/// For n places whose parts are joined from the last to the first: the original place of place i.
/// Parts are equal except the last, which may be shorter, as in a vocabulary that is not a multiple
/// of the ranks.
inline auto reversed_parts(std::size_t n, std::size_t ranks) {
  const std::size_t part = (n + ranks - 1) / ranks, last = n - (ranks - 1) * part;
  return [=](std::size_t i) {
    if (i < last) return (ranks - 1) * part + i;
    return (ranks - 2 - (i - last) / part) * part + (i - last) % part;
  };
}
/// The same if every part is the first.
inline auto first_part(std::size_t n, std::size_t ranks) {
  return [part = n / ranks](std::size_t i) { return i % part; };
}

} // namespace mha
