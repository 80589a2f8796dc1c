#pragma once
// Which format is written, and its writer.

#include <mha/files/writer.hpp>

namespace mha::io {

/// A writer for `path`: `format` by name, or "" to take it from the extension (a path without one,
/// or ending in '/', is a folder of .npy). "-" is standard output. Several items and format "npy"
/// make a folder; one item and a path ending in ".npy" make a file.
std::unique_ptr<Writer> create(const std::string& path, std::string_view format,
                               const Output& output);

} // namespace mha::io
