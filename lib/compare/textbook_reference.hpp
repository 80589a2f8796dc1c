#pragma once
// A reference that is no file: the stages of a layer by the formulas of <mha/textbook.hpp>.

#include <mha/compare/reference.hpp>
#include <mha/load/load.hpp>
#include <mha/system/clock.hpp>

namespace mha {

/// What the textbook computes of a layer: every stage of attention that it can, but those that are
/// given. Throws Error that names what the textbook does not have, and where it would compute
/// nothing of a lone layer.
Reference textbook_reference(const LoadedLayer& ours, Effort& effort);

} // namespace mha
