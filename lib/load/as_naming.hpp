#pragma once
// A family's reading of a checkpoint, written as a description (docs/describing.md).

#include <mha/load/load.hpp>

#include <string>

namespace mha {

/// The JSON of a description by which `model` is read as its family reads it: to the same bits.
/// Throws Error where no family was recognised, and for what a description cannot say.
std::string as_naming(const Sources& model);

} // namespace mha
