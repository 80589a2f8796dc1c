#pragma once
// Texts whose tokens are packed one after the other, as kernels take them: cu_seqlens.

#include <mha/load/assemble.hpp>

namespace mha {

/// Where each packed text begins, and the end, of cu_seqlens. Throws Error for what is none.
std::vector<std::size_t> starts_of_texts(const NamedTensor& part);

/// Moves cu_seqlens and cu_seqlens_k from `parts` into the layer, whose sizes are known, as a mask
/// that hides the keys of other texts. Throws Error where more than a mask would follow from them.
void take_packed_texts(NamedTensors& parts, Layer& layer);

} // namespace mha
