#pragma once
// The values and the layout of a description that is written: inside of as_naming.cpp.

#include <string>
#include <string_view>

namespace mha {

/// A value of a setting as JSON: true, 12, "half".
std::string typed_value(std::string_view setting, const std::string& value);

/// A line a key, and one a tensor and step.
std::string spread_description(const std::string& json);

} // namespace mha
