#pragma once
// The words of a family's file beyond a user's description: rules of biases, steps, texts, what
// blocks have. Inside of read_description.

#include <mha/load/families/description.hpp>
#include <mha/load/json_tree.hpp>

namespace mha::description {

/// Puts what these words of a file say into `to`, whose tensors and norms are there.
void read_family_words(const JsonTree& tree, naming::Description& to);

} // namespace mha::description
