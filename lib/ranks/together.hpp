#pragma once
// One computation, shared out over ranks.

#include <mha/files/writer.hpp>
#include <mha/observe/mergeable.hpp>
#include <mha/ranks/ranks.hpp>

namespace mha {

/// Together: each rank computes its part of the plan; the first rank's observer gets what all the
/// others have seen, with the bits that one rank alone would have. `by`: how (ComputeLayer).
/// One rank alone computes the whole plan, and nothing else happens.
PhaseTimes compute_together(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer,
                            std::size_t threads = 0, const ComputeLayer& by = compute);

/// Together: the second half of that. `observer` was shown this rank's part of the plan.
void gather(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer);

/// Together: throws Error where ranks start from something else, of which `fingerprint` tells.
/// Those whose hosts have other files under the same names would make a mixture.
void require_same_input(Ranks& ranks, const std::string& fingerprint);

/// Together: a writer for one file in which every rank writes its part of the elements; finish()
/// makes it appear when all are through. One rank writes as io::create() does, in any format;
/// several write .npy or .safetensors.
std::unique_ptr<io::Writer> create_together(Ranks& ranks, const std::string& path,
                                            std::string_view format, const io::Output& output);

} // namespace mha
