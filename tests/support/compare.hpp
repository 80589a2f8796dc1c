#pragma once
// Comparing whole arrays: one answer a stage, with the worst place.

#include "support/random_layer.hpp"
#include <mha/tensor/tensor.hpp>

#include <string>

/// Empty where they agree, else what differs and where: |got − want| ≤ bound everywhere; infinities
/// and NaN at the same places.
std::string compare(const mha::Tensor& got, const mha::Tensor& want, double bound);
/// The same bytes, shape and dtype; NaN is equal to NaN of the same bits only.
std::string compare_bits(const mha::Tensor& got, const mha::Tensor& want);
/// The largest finite magnitude; 0 if there is none.
double magnitude(const mha::Tensor& tensor);
double magnitude(const reference::Array& array);
/// What rounding may do to a stage. float64: 1e-12 of (1 + magnitude), and for the naive
/// softmax, whose exponents may be in the hundreds, 1e-12 of those. float32: a number goes
/// through at most `depth` roundings, the terms of the longest chain of sums, each of them ε/2 of
/// the terms' magnitude; the softmax turns what is off in a logit, ε of its magnitude, into a
/// relative error. (Terms can be larger than their sum, but errors of many terms cancel: measured
/// over all random layers of the tests, the worst is 0.15 of this bound.)
/// `logits`: the largest of them; `size`: the largest number of the stage.
double rounding_bound(const RandomLayer& random, double logits, double size);
