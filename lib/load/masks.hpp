#pragma once
// The masks of a layer, checked and broadcast to (B, H, T, keys), and the lengths of texts.

#include <mha/files/contents.hpp>
#include <mha/load/assemble.hpp>
#include <mha/system/note.hpp>

namespace mha {

/// Moves mask, block_mask, key_padding_mask, attention_mask, kv_lengths, cu_seqlens and bias from
/// `parts` into the layer, whose sizes are known. Throws Error for shapes that do not broadcast,
/// for a float mask of only zeros and ones, and for lengths out of range.
void take_masks(NamedTensors& parts, Layer& layer, std::vector<Note>& notes);

/// Reads `lengths`, (B), which dump and convert write for texts of unequal lengths, into the layer
/// of a batch of texts. A layer that attends to another sequence, or has no input, has none. A
/// checkpoint's tensor of that name means something else. Throws Error where it does not fit.
void take_lengths(const std::vector<io::Contents>& files, Layer& layer);

} // namespace mha
