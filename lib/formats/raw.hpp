#pragma once
// Raw bytes as kernels write them: FILE:DTYPE[SHAPE].

#include <mha/files/contents.hpp>

namespace mha::io {

/// A whole file as one tensor, numbers in the order of `shape` (last axis fastest), little-endian.
/// Throws Error where the file has not exactly the bytes of `shape` and `dtype`.
Entry read_raw(const std::string& path, std::string name, DType dtype, const Shape& shape);

} // namespace mha::io
