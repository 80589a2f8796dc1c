#pragma once
// Rotary bases by number: for fits.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// The angles come from another base.
Change rope_base_change(const Layer& layer, double base);

} // namespace mha
