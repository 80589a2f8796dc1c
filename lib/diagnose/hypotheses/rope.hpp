#pragma once
// Rotary bases and factors by number: for fits.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// The angles come from another base.
Change rope_base_change(const Layer& layer, double base);
/// The positions are divided by another factor, as linear scaling does.
Change rope_factor_change(const Layer& layer, double factor);

} // namespace mha
