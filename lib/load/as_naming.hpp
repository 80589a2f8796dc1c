#pragma once
// A family's reading of a checkpoint, written as a description (docs/describing.md).

#include <mha/load/load.hpp>

#include <string>
#include <string_view>

namespace mha {

/// The JSON of a description by which `model` is read as its family reads it: to the same bits.
/// Throws Error where no family was recognised, and for what a description cannot say.
std::string as_naming(const Sources& model);

/// A value of a setting as JSON: true, 12, "half".
std::string typed_value(std::string_view setting, const std::string& value);

/// A line a key, and one a tensor and step.
std::string spread_description(const std::string& json);

} // namespace mha
