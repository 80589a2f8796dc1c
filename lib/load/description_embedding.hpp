#pragma once
// The embedding of a description, step by step. Inside of read_description.

#include <mha/load/description_parts.hpp>

namespace mha::description {

/// Reads `embed` into the description's tensors, norms and record. Throws Error, by the step's
/// line, for what is no step and for an order of steps that is not covered.
void read_embedding(const JsonTree& embed, const Parse& parse, naming::Description& to);

} // namespace mha::description
