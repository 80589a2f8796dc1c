#pragma once
// A Swish of any β in the feed-forward.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// x σ(β x), whose β some models learn; nothing for a layer whose feed-forward has more steps.
std::optional<Change> swish_change(const Layer& layer, double beta);

} // namespace mha
