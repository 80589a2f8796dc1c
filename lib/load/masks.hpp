#pragma once
// The masks of a layer: read, checked, and seen as (B, H, T, keys).

#include <mha/files/contents.hpp>
#include <mha/load/assemble.hpp>
#include <mha/system/note.hpp>

namespace mha {

/// Moves mask, block_mask, key_padding_mask, attention_mask, kv_lengths and bias from `parts` into
/// the layer, whose sizes are known. Throws Error for shapes that do not broadcast, for a float
/// mask of only zeros and ones, and for lengths out of range.
void take_masks(NamedTensors& parts, Layer& layer, std::vector<Note>& notes);

/// Takes `lengths`, (B), as dump and convert write it for texts that are not equally long, where
/// the layer is of a batch of texts: a layer that attends to another sequence, or without an input,
/// has none. A checkpoint's tensor of that name is its own. Throws Error where it does not fit.
void take_lengths(const std::vector<io::Contents>& files, Layer& layer);

} // namespace mha
