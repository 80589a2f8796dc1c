#pragma once
// From scores to weights: what happens to the row of one query.

#include <mha/forward/bias.hpp>
#include <mha/schedule/band.hpp>

namespace mha {

/// scaled, capped, biased, masked, row_max, shifted, exp, row_sum, logsumexp, weights of a row that
/// holds scores. Stable (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax",
/// eq. 2), or naive, to see it overflow.
template <class T> void softmax(const Layer& layer, const PositionBias<T>& bias, Row<T>& row);

} // namespace mha
