#pragma once
// Writing NPY: one file, and the parts that NPZ and folders are made of.

#include <mha/formats/flat.hpp>

namespace mha::io {

std::unique_ptr<Writer> create_npy(const std::string& path, const Output& output);
Layout npy_layout(const std::string& path, const Output& output);

/// The header of an item, a multiple of 64 bytes; throws Error for bfloat16, which NPY has not.
std::string npy_header(const std::string& path, const Item& item);
/// A whole .npy of a setting or of a list of text.
std::string npy_of_scalar(const std::string& text);
std::string npy_of_labels(const std::vector<std::string>& texts, const Shape& shape);

/// Settings and labels as (name, whole .npy), in their order.
std::vector<std::pair<std::string, std::string>> npy_extras(const Output& output);

} // namespace mha::io
