#pragma once
// The softmax of one query's row of scores.

#include <mha/forward/bias.hpp>
#include <mha/schedule/band.hpp>

namespace mha {

/// Computes scaled, capped, biased, masked, row_max, shifted, exp, row_sum, logsumexp and weights
/// of a row of scores. The row's maximum is subtracted (Milakov & Gimelshein 2018, "Online
/// normalizer calculation for softmax", eq. 2) unless the softmax is naive, which can overflow.
template <class T> void softmax(const Layer& layer, const PositionBias<T>& bias, Row<T>& row);

} // namespace mha
