#pragma once
// What a reader of an explanation should be told in words.

#include <mha/explain/explain.hpp>

namespace mha {

/// Fully masked rows, overflow and underflow of the softmax, where NaN or infinity comes from,
/// weights that are given and do not sum to 1: one sentence each.
std::vector<std::string> notes_on(const Explanation& explanation, const HeadExplanation& head);

} // namespace mha
