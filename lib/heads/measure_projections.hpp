#pragma once
// Singular values of each head's blocks of the projection matrices W_q, W_k, W_v and W_o.

#include <mha/heads/measures.hpp>
#include <mha/ranks/ranks.hpp>

namespace mha {

/// Computes the measures q, k, v and o of each head whose weights the layer has. The processes of
/// a parallel run (`ranks`, not ranks of matrices) share the work: each calls this function with
/// the same heads and computes some of them, and the first process receives all results. Returns
/// false, and leaves `heads` unchanged, if the computation needs LAPACK and LAPACK is missing.
bool measure_projections(const Layer& layer, std::span<HeadMeasures> heads, std::size_t threads,
                         Ranks& ranks);

} // namespace mha
