#pragma once
// Singular values of each head's blocks of the projections.

#include <mha/heads/measures.hpp>
#include <mha/ranks/ranks.hpp>

namespace mha {

/// Together: fills in q, k, v and o of the heads for which the layer has the weights; on the first
/// rank all of them. False if LAPACK would be needed and is missing: nothing is filled in.
bool measure_projections(const Layer& layer, std::span<HeadMeasures> heads, std::size_t threads,
                         Ranks& ranks);

} // namespace mha
