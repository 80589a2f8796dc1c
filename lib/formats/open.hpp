#pragma once
// Opening with what a binding knows and the file does not say.

#include <mha/files/contents.hpp>

namespace mha::io {

/// open(), with 2-byte void elements of NumPy files taken as bfloat16.
Contents open_bfloat16(const std::string& path);

} // namespace mha::io
