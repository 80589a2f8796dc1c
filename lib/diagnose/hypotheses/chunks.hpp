#pragma once
// A text computed in pieces with a cache: what queries of the later ones see.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// Of a causal layer without past keys, whose first `first` tokens are computed as they should be:
/// what those behind may see of the keys instead. Of other layers, none.
std::vector<Change> chunk_changes(const Layer& layer, std::size_t first);
/// The first `tokens` tokens see each other, as a prefix that is no text to be continued does.
std::vector<Change> prefix_changes(const Layer& layer, std::size_t tokens);

} // namespace mha
