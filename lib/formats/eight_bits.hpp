#pragma once
// Floats of 8 bits, whose scales are separate tensors.

#include <mha/files/contents.hpp>

namespace mha::io {

/// An entry of bytes as one of 8-bit floats of `type`.
Entry as_floats(Entry bytes, const BlockType& type);

/// Throws Error for 8-bit floats beside scales of theirs, which are not applied. Notes others.
void require_no_scales(Contents& contents);

} // namespace mha::io
