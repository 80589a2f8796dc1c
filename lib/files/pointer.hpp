#pragma once
// Pointers of Git LFS, which stand in the place of large files that were not downloaded.

#include <mha/files/contents.hpp>

namespace mha::io {

/// Throws Error, with the command that downloads the file, where the bytes are a Git LFS pointer.
void refuse_pointer(const Bytes& bytes);

} // namespace mha::io
