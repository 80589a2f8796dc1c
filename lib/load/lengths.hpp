#pragma once
// Lengths of the texts of a batch, where a file has them.

#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>

#include <vector>

namespace mha {

/// Takes `lengths`, (B), as dump and convert write it for texts that are not equally long, where
/// the layer is of a batch of texts: a layer that attends to another sequence, or without an input,
/// has none. A checkpoint's tensor of that name is its own. Throws Error where it does not fit.
void take_lengths(const std::vector<io::Contents>& files, Layer& layer);

} // namespace mha
