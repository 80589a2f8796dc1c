#pragma once
// Files of other programs that are not read here, each with the line of Python that converts it.

#include <mha/files/contents.hpp>

namespace mha::io {

/// Throws the Error for ONNX, GGUF, HDF5, a compressed file …, known by its first bytes or by its
/// extension; returns where the file is none of them.
void refuse_foreign(const Bytes& bytes);

/// "an HDF5 file is not read; convert it: …" for a file known by its extension; "" for any other.
std::string foreign_cure(std::string_view path);

/// "object elements (pickled Python) …" with the cure, for a .npy that holds objects.
std::string object_array_cure(std::string_view path);

} // namespace mha::io
