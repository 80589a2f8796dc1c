#pragma once
// ONNX models: their tensors, and the attention layers that their graphs hold. Only read.

#include <mha/files/contents.hpp>

#include <span>

namespace mha::io {

/// Whether a file begins as a model does: its version, then what its exporters write next.
bool begins_as_onnx(std::span<const std::byte> first);

/// Tensors are initializers and Constant nodes; anonymous ones are named by the node that reads
/// them. A layer's parts are further tensors, PREFIXW_q …, with its settings as scalars,
/// PREFIXscale …, and PREFIXnote where something of it is not read.
Contents read_onnx(const Bytes& bytes);

} // namespace mha::io
