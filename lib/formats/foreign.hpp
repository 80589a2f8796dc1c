#pragma once
// Unsupported formats of other programs, each with the line of Python that converts it.

#include <mha/files/contents.hpp>

namespace mha::io {

/// Throws Error for HDF5, a compressed file and other unsupported formats, recognised by the first
/// bytes or the extension; returns for any other file.
void refuse_foreign(const Bytes& bytes);

/// "an HDF5 file is not read; convert it: …" for an extension of these formats; "" for any other.
std::string foreign_cure(std::string_view path);

/// The message for a .npy or .npz that holds Python objects, with the command that converts it.
std::string object_array_cure(std::string_view path);

} // namespace mha::io
