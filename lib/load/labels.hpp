#pragma once
// Labels of queries and keys, of one text or of each batch item's.

#include <mha/load/assemble.hpp>

namespace mha {

/// Puts the labels into the layer, whose sizes are known: as many as there are queries or keys, of
/// every item; a shorter item's are filled up with empty ones. Throws Error where they do not fit.
void take_labels(Labels labels, Layer& layer, std::vector<Note>& notes);

} // namespace mha
