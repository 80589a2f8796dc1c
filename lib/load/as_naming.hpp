#pragma once
// Writes how a family reads a checkpoint as a description (docs/describing.md).

#include <mha/load/load.hpp>

#include <string>
#include <string_view>

namespace mha {

/// A description in JSON by which `model` is read to the same bits as by its family. Throws Error
/// where no family was recognised, and for what a description cannot express.
std::string as_naming(const Sources& model);

/// A value of a setting as JSON: true, 12, "half".
std::string typed_value(std::string_view setting, const std::string& value);

/// The JSON with a line for each key, and for each tensor and each step of the embedding.
std::string spread_description(const std::string& json);

} // namespace mha
