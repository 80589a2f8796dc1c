#pragma once
// A draft of a description for a checkpoint whose names no family knows.

#include <mha/files/contents.hpp>

#include <optional>
#include <string>

namespace mha {

/// A description by names and shapes, which the user checks against the model's code: tensors are
/// recognised by words that checkpoints use (query, to_q, fc1, wte …), the shape of a block by the
/// order of its norms. What names and shapes leave open (heads, activation) is as in most models.
/// Nothing where there is no stack of layers with queries.
std::optional<std::string> draft_naming(const io::Contents& file);

} // namespace mha
