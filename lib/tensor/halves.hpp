#pragma once
// Half precision by the processor's own instructions, where it has them.

#include <cstddef>
#include <cstdint>

namespace mha {

/// Rounds n floats to the nearest half, ties to even; NaN stays NaN. False if this processor
/// cannot: nothing was done.
bool narrow_to_halves(const float* from, std::uint16_t* to, std::size_t n);
/// The floats that n halves are.
bool widen_halves(const std::uint16_t* from, float* to, std::size_t n);

} // namespace mha
