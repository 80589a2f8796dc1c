#pragma once
// Whether a reference shows heads and tokens in another order than q, k and v are read in.

#include "against.hpp"
#include <mha/compare/diff.hpp>

namespace mha::app {

/// Reads a layer's q, k and v in the other order of heads and tokens, where their files leave it
/// open (LoadedLayer::other_order) and the reference agrees with that one, or points its way while
/// it does not point that of the layer as it is read. Then `model` and `request` have the axes, and
/// a note says them; else a note says how they may be given. `found`: how the layer compares as it
/// is read; null: the reference does not fit it. Returns whether the order was changed.
bool takes_other_order(OpenedModel& model, RunRequest& request, const LoadedLayer& loaded,
                       const Diff* found, const ReferenceFiles& against, Common& common);

} // namespace mha::app
