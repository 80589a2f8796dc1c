#pragma once
// What Git LFS leaves in the place of a large file that was not downloaded.

#include <mha/files/contents.hpp>

namespace mha::io {

/// Throws Error, with the command that downloads the file, where the bytes are a Git LFS pointer.
void refuse_pointer(const Bytes& bytes);

} // namespace mha::io
