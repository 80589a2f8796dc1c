#pragma once
// The layout of a description that is written: private to as_naming.cpp.

#include <string>

namespace mha {

/// A line a key, and one a tensor and step.
std::string spread_description(const std::string& json);

} // namespace mha
