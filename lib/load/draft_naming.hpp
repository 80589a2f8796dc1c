#pragma once
// The beginning of a description of a checkpoint whose names no family knows.

#include <mha/files/contents.hpp>

#include <optional>
#include <string>

namespace mha {

/// A description as far as names and shapes tell, to be checked against the model's code: which
/// tensor is which follows from words that checkpoints use (query, to_q, fc1, wte …), the shape of
/// a block from where norms stand, and what nothing tells (heads, activation) is as in most models.
/// Nothing where no row of layers with queries is found.
std::optional<std::string> draft_naming(const io::Contents& file);

} // namespace mha
