#pragma once
// The masks of a layer: read, checked, and seen as (B, H, T, keys).

#include <mha/load/assemble.hpp>
#include <mha/system/note.hpp>

namespace mha {

/// Moves mask, block_mask, key_padding_mask, attention_mask, kv_lengths and bias from `parts` into
/// the layer, whose sizes are known. Throws Error for shapes that do not broadcast, for a float
/// mask of only zeros and ones, and for lengths out of range.
void take_masks(NamedTensors& parts, Layer& layer, std::vector<Note>& notes);

} // namespace mha
