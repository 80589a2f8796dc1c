#pragma once
// Nodes of an exported graph (ONNX): what an operator within a module computes.

#include <mha/compare/capture_path.hpp>
#include <mha/compare/capture_table.hpp>

namespace mha {

/// Whether a row is a norm: what enters it is a stream, or a result that is added to it.
bool is_norm(const CaptureMeaning& row);

/// What a node of a layer's own module is; `named` where its path says more ("output").
void take_node_of_layer(const GraphNode& node, bool named, const Surroundings& model,
                        Capture& capture);
/// What a node of a module is, of which `capture` says what the module returns; `row` (or null) and
/// `words` are its row and path.
void take_node_of_module(const GraphNode& node, const CaptureMeaning* row,
                         const std::vector<std::string>& words, const Surroundings& model,
                         Capture& capture);

} // namespace mha
