#pragma once
// A reference that is itself a layer: it has weights, and its steps are computed.

#include <mha/compare/reference.hpp>
#include <mha/load/load.hpp>
#include <mha/system/clock.hpp>

namespace mha {

/// Whether the files of a reference hold a layer's weights.
bool holds_weights(const ReferenceFiles& against);

/// read_reference. Files that hold the weights of a layer and no step after its input are computed
/// as that layer, with the settings that are in them; X and the number of heads are `ours` where
/// they have none, and a note says so; the textbook computes `ours`. Throws Error that says how
/// where it cannot be computed.
Reference read_or_compute(const LoadedLayer& ours, const ReferenceFiles& against, Effort& effort,
                          const WholeModelOfLayer* model);

} // namespace mha
