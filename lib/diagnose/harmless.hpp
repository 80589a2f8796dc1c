#pragma once
// Differences that change nothing: q and k up to a factor, or up to the order of a head's
// dimensions.

#include <mha/diagnose/trials.hpp>

namespace mha {

/// How a stage of another implementation differs from ours where that has no effect by itself:
/// "equal up to the factor 0.125", "equal up to the order of the dimensions in each head". "" where
/// it differs in another way, or the stage is none of q, k, their forms and scores. `ours` in the
/// form of Layer::given; what is left is judged by the trials of the stage. `tolerance`: columns
/// that are as near are looked at.
std::string harmless_difference(const Layer& layer, const Trials& trials, const Tensor& ours,
                                double tolerance);

} // namespace mha
