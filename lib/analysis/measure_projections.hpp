#pragma once
// How each head's blocks of the projections stretch space: their singular values.

#include "analysis/measures.hpp"

namespace mha {

/// Fills in q, k, v and o of the heads for which the layer has the weights. False if LAPACK would
/// be needed and is missing: nothing is filled in.
bool measure_projections(const Layer& layer, std::vector<HeadMeasures>& heads, std::size_t threads);

} // namespace mha
