#pragma once
// Weights of numbered heads, as lecture notes have them: W_q1, W_q2 … are the heads of W_q.

#include <mha/load/doubts.hpp>

#include <vector>

namespace mha {

/// Joins weights and biases of numbered heads to those of all heads, where the layer has none, with
/// a note, and takes them out of the unknown tensors. Numbers count from 0 or 1 without a gap, and
/// all heads have one shape; others stay.
void join_numbered_heads(const std::vector<io::Contents>& files, NamedTensors& parts,
                         std::vector<UnknownTensor>& unknown_tensors, std::vector<Note>& notes);

} // namespace mha
