#pragma once
// A reference's stages, as diagnose judges a layer by them.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/trials.hpp>

#include <vector>

namespace mha {

/// Stages of a reference that the layer computes, in the order of the computation. Throws Error
/// where it has none.
std::vector<Target> targets_of(const Layer& layer, const std::vector<ReferenceStage>& reference);

} // namespace mha
