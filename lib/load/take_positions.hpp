#pragma once
// Tensors of a layer's positions: rotary positions and factors, tables of relative ones.

#include <mha/load/assemble.hpp>

namespace mha {

/// Takes positions, rope_short_factor, rope_long_factor, relative_bias and relative_key out of
/// `parts`, into the layer whose sizes are known. Throws Error for one that does not fit them.
void take_positions(NamedTensors& parts, Layer& layer, std::vector<Note>& notes);

} // namespace mha
