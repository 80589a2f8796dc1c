#pragma once
// The ε of norms, of any size.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// Another ε in the norm before the projections, and in the norms of q and k.
Change input_norm_eps_change(const Layer& layer, double eps);
Change qk_norm_eps_change(const Layer& layer, double eps);

} // namespace mha
