#pragma once
// Singular values of each head's blocks of the projections.

#include <mha/heads/measures.hpp>
#include <mha/ranks/ranks.hpp>

namespace mha {

/// Every rank calls this with the same heads and computes a share of them. Fills in q, k, v and o
/// of the heads for which the layer has the weights; the first rank gets all of them. False if
/// LAPACK would be needed and is missing: then nothing is filled in.
bool measure_projections(const Layer& layer, std::span<HeadMeasures> heads, std::size_t threads,
                         Ranks& ranks);

} // namespace mha
