#pragma once
// Rotary bases and factors by number: for fits.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// The angles come from another base.
Change rope_base_change(const Layer& layer, double base);
/// The positions are divided by another factor, as linear scaling does.
Change rope_factor_change(const Layer& layer, double factor);

enum class RopeSide : std::uint8_t { both, q, k };
/// Positions of q, k or both that are off by a number.
Change rope_offset_change(const Layer& layer, RopeSide side, std::int64_t by);

} // namespace mha
