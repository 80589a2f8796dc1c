#pragma once
// One computation, shared out over ranks.

#include "observe/shareable.hpp"
#include "ranks/ranks.hpp"

namespace mha {

/// Together: each rank computes its part of the plan; the first rank's observer gets what all the
/// others have seen, with the bits that one rank alone would have.
PartTimes compute_together(Ranks& ranks, const Layer& layer, const Plan& plan, Shareable& observer,
                           std::size_t threads = 0);

} // namespace mha
