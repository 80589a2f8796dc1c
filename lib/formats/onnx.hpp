#pragma once
// ONNX models: their tensors, and the attention layers in their graphs. They are only read.

#include <mha/files/contents.hpp>

#include <span>

namespace mha::io {

/// Whether a file begins like a model: with its version, then a field that exporters write next.
bool begins_as_onnx(std::span<const std::byte> first);

/// Reads initializers and Constant nodes as tensors; anonymous ones are named after the node that
/// reads them. The parts of a layer are further tensors, PREFIXW_q …, its settings are scalars,
/// PREFIXscale …, and PREFIXnote describes what is not read.
Contents read_onnx(const Bytes& bytes);

} // namespace mha::io
