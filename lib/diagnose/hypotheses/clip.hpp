#pragma once
// Queries, keys and values clipped to a range of any size.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// min(max(a, −limit), limit) of q, k and v: another limit than the layer's, or one where the layer
/// has none.
Change clip_change(const Layer& layer, double limit);

} // namespace mha
