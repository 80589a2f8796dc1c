#pragma once
// References that are computed: a layer given by its weights, or the textbook's formulas.

#include <mha/compare/reference.hpp>
#include <mha/load/load.hpp>
#include <mha/system/clock.hpp>

namespace mha {

/// Whether the files of a reference hold a layer's weights.
bool holds_weights(const ReferenceFiles& against);

/// Reads a reference, or computes it. Files with a layer's weights and no step after its input are
/// computed as that layer, with their own settings; X and the number of heads come from `ours` if
/// the files have none, with a note. The textbook computes `ours`. Throws Error with a way out if
/// the reference cannot be computed.
Reference read_or_compute(const LoadedLayer& ours, const ReferenceFiles& against, Effort& effort,
                          const WholeModelOfLayer* model);

/// The stages that the formulas of <mha/textbook.hpp> compute: all stages of attention that the
/// layer has and that are not given. Throws Error that names a step the textbook does not have, and
/// if nothing is left to compute in a lone layer.
Reference textbook_reference(const LoadedLayer& ours, Effort& effort);

} // namespace mha
