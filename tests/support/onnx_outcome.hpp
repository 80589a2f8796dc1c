#pragma once
// What the library makes of a graph that a test wrote: a layer's numbers, or what it reports.

#include "support/onnx_forms.hpp"
#include <mha/tensor/tensor.hpp>

namespace onnx {

/// The stage that the layer computes, or why it is refused.
struct Outcome {
  std::string said; ///< the error, or the notes and warnings
  std::optional<mha::Tensor> output, concat;
};

Outcome outcome_of(const Graph& graph, const Value& X);
/// Whether numbers are the graph's, but for the rounding of float32.
bool is_close(const mha::Tensor& found, const Value& wanted);

} // namespace onnx
