#pragma once
// Choices of experts: those that rounding decided otherwise in a reference that does not have them,
// and their order in one that does.

#include <mha/compare/reference.hpp>
#include <mha/layer/layer.hpp>

#include <functional>

namespace mha {

/// Whether the layer's feed-forward is a mixture of experts.
bool is_mixture(const Layer& layer);
/// The root of the sum of squares of a − b, for values of as many numbers.
double distance(const Tensor& a, const Tensor& b);

/// Computes a stage after a layer's mixture.
using AfterMixture = std::function<Tensor(const Layer&)>;

/// Replaces a token's last chosen expert by the next best one, where the scores of the two are as
/// good as equal in the precision of `theirs`, and its row of `theirs` is nearer to the result of
/// that choice by a half at least. `layer` has the reference's stream. Returns for how many tokens
/// it did; 0 of a layer without a mixture.
std::size_t take_choices_of(const Tensor& theirs, DType stored, const AfterMixture& ours,
                            Layer& layer);

/// The same by a layer's own results, where the reference has them and does not have its experts.
std::size_t take_choices_of(const Reference& reference, std::size_t threads, Layer& layer);

/// Puts a reference's chosen experts, and all that it has of each, into the order of their weights,
/// which is the layer's, where they clearly are in another. Returns whether they were.
bool order_experts(const Layer& layer, Reference& reference);

/// How many tokens have other experts in two layers that differ in their streams.
std::size_t tokens_of_other_experts(const Layer& a, const Layer& b, std::size_t threads);

} // namespace mha
