#pragma once
// Notes of an explanation, in words.

#include <mha/explain/explain.hpp>

namespace mha {

/// Fully masked rows, overflow and underflow of the softmax, where NaN or infinity comes from,
/// weights that are given and do not sum to 1: one sentence each.
/// `overflow`: where numbers left their type's range, in words, or "".
std::vector<Message> notes_on(const Explanation& explanation, const HeadExplanation& head,
                              const Message& overflow = {});

/// Whether a number of the story is NaN or infinite, and no mask has put it there.
bool has_strange_numbers(const Explanation& explanation, const HeadExplanation& head);

} // namespace mha
