#pragma once
// The embedding with another scale.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// embed.scale: the tokens' rows times a factor, in place of the model's own. `model` has an
/// embedding, and outlives the change.
Change embed_scale_change(const ModelAround& model, double factor);

} // namespace mha
