#pragma once
// Differences that change nothing: q and k up to a factor, or up to the order of a head's
// dimensions.

#include <mha/layer/layer.hpp>

namespace mha {

/// How a stage of another implementation differs from ours where that has no effect by itself:
/// "equal up to the factor 0.125", "equal up to the order of the dimensions in each head". "" where
/// it differs in another way, or the stage is none of q, k, their forms and scores. Values in the
/// form of Layer::given; `tolerance` as for agreement_of.
std::string harmless_difference(const Layer& layer, Stage stage, const Tensor& ours,
                                const Tensor& theirs, double tolerance);

} // namespace mha
