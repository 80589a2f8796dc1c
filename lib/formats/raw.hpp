#pragma once
// Raw bytes as kernels write them: FILE:DTYPE[SHAPE].

#include <mha/files/contents.hpp>

namespace mha::io {

/// The whole file as one tensor; throws Error where its size is not exactly that of the shape.
Entry read_raw(const std::string& path, std::string name, DType dtype, const Shape& shape);

} // namespace mha::io
