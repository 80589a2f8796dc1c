#pragma once
// The terms of a block's sums, each multiplied by a number.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// What is multiplied by one number before each sum: results, the stream, or all that is summed.
enum class Scaled : std::uint8_t { both, attention, feed_forward, stream, sums };
inline constexpr Scaled all_scaled[]{Scaled::both, Scaled::attention, Scaled::feed_forward,
                                     Scaled::stream, Scaled::sums};

/// block.residual.scaled, of a layer in a block, by a factor.
Change scaled_change(const Layer& layer, Scaled which, double factor);

} // namespace mha
