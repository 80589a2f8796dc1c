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

/// What a decoder with a cache gets wrong from one token on.
enum class Decoded : std::uint8_t {
  ahead,  ///< positions one too high
  behind, ///< one too low
  zero,   ///< position 0 for each
  again,  ///< counted from 0 again
  still,  ///< the position of the last token before them
};
inline constexpr Decoded all_decoded[]{Decoded::ahead, Decoded::behind, Decoded::zero,
                                       Decoded::again, Decoded::still};
/// The tokens from `first` on have such positions.
Change rope_decoded_change(const Layer& layer, Decoded how, std::size_t first);

} // namespace mha
