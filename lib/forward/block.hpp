#pragma once
// A block of a whole model: attention, and what stands around it.

#include <mha/forward/attention.hpp>

namespace mha {

/// compute() for a layer with a block, or for the ends of a model. Attention's stages have the bits
/// that they have without the block.
PhaseTimes compute_block(Layer layer, const Plan& plan, Observer& observer, std::size_t threads);

} // namespace mha
