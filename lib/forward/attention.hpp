#pragma once
// Multi-head attention (Vaswani et al. 2017), and the block around it.

#include <mha/forward/norm.hpp>
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
/// A norm that a block lacks hands on, and a lone layer has A, or X + A: one sequence of steps.
/// `clip`: of the whole layer; the schedule lets go of what no step reads.
template <class T> void transformer_block(const Layer& layer, const Clip& clip, Schedule<T>& run);

/// From the last layer's stream to logits: T, vocabulary.
template <class T> void unembed(const Layer& layer, Schedule<T>& run);

} // namespace mha
