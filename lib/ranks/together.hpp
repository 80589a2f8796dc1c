#pragma once
// One computation and its output, shared by all ranks.

#include <mha/files/writer.hpp>
#include <mha/observe/mergeable.hpp>
#include <mha/ranks/ranks.hpp>

namespace mha {

/// Together: each rank computes its part of the plan, and the first rank's observer gets the
/// results of all others, with the bits that a single rank would have. `by`: how the layer is
/// computed. A single rank computes the whole plan, and nothing else happens.
PhaseTimes compute_together(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer,
                            std::size_t threads = 0, const ComputeLayer& by = compute);

/// Together: only gathers the results. `observer` has observed this rank's part of the plan.
void gather(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer);

/// Together: throws Error if the ranks' fingerprints of their input differ: hosts may have other
/// files under the same names.
void require_same_input(Ranks& ranks, const std::string& fingerprint);

/// Together: a writer for one file in which every rank writes its part of the elements; finish()
/// makes it appear when all are through. One rank writes as io::create() does, in any format;
/// several write .npy or .safetensors.
std::unique_ptr<io::Writer> create_together(Ranks& ranks, const std::string& path,
                                            std::string_view format, const io::Output& output);

} // namespace mha
