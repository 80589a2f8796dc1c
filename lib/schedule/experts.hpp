#pragma once
// Which tokens each expert of a mixture computes.

#include <cstddef>
#include <vector>

namespace mha {

/// One token of an expert, and which of the token's chosen experts this is.
struct ExpertRow {
  std::size_t row = 0, slot = 0;
};

/// The numbers of a token's chosen experts, as the stage `experts` has them. Throws Error where
/// they are not distinct whole numbers below `count`; `token` is for the message.
template <class T> std::vector<std::size_t> experts_of(const T* numbers, std::size_t chosen,
                                                       std::size_t count, std::size_t token);

} // namespace mha
