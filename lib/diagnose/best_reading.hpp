#pragma once
// A diagnosis by the reading of a reference that needs the fewest changes: names that mean several
// stages are tried in each meaning that the numbers leave open.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/load/load.hpp>

#include <utility>
#include <vector>

namespace mha {

/// The stages of a reading that are compared.
using StagesOfReading = std::vector<ReferenceStage> (*)(const Reference& reading);

/// The diagnosis, and the reading that it is of; of as few changes the first. One at least is
/// given.
std::pair<Diagnosis, Reference> best_reading(const Layer& layer,
                                             const std::vector<Reference>& readings,
                                             StagesOfReading compared,
                                             const DiagnoseContext& context);
/// The same of a lone layer, whose readings are compared whole.
std::pair<Diagnosis, Reference> best_reading(const LoadedLayer& loaded,
                                             const std::vector<Reference>& readings,
                                             std::size_t threads);

/// Whether the files hold one matrix of queries, keys and values, so that its order has a say.
bool is_fused(const LoadedLayer& loaded);

} // namespace mha
