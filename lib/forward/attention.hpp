#pragma once
// Multi-head attention (Vaswani et al. 2017), and the block around it.

#include <mha/forward/bias.hpp>
#include <mha/forward/norm.hpp>
#include <mha/schedule/band.hpp>
#include <mha/schedule/schedule.hpp>

namespace mha {

/// From the stream before a layer, X, to the stream after it; n norms, A attention, F the
/// feed-forward:
///
///   pre            residual = X + A(n1 X)             resid_post = residual + F(n2 residual)
///   parallel                                          resid_post = X + A(n1 X) + F(n2 X)
///   sandwich       residual = X + n2 A(n1 X)          resid_post = residual + n4 F(n3 residual)
///   post           residual = X + A(X)                resid_post = n2(r + F(r)), r = n1 residual
///   post, inside   residual = X + n1 A(X)             resid_post = residual + n2 F(residual)
///
/// A norm that a block lacks is the identity, and a lone layer is A, or X + A: one sequence of
/// steps. `clip`: of the whole layer; the schedule lets go of what no step reads.
template <class T> void transformer_block(const Layer& layer, const Clip& clip, Schedule<T>& run);

/// Computes scaled, capped, biased, masked, row_max, shifted, exp, row_sum, logsumexp and weights
/// of a row of scores. The row's maximum is subtracted (Milakov & Gimelshein 2018, "Online
/// normalizer calculation for softmax", eq. 2) unless the softmax is naive, which can overflow.
template <class T> void softmax(const Layer& layer, const PositionBias<T>& bias, Row<T>& row);

/// From the last layer's stream to logits: T, vocabulary.
template <class T> void unembed(const Layer& layer, Schedule<T>& run);

} // namespace mha
