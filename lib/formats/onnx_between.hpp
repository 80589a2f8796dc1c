#pragma once
// The steps between an attention layer's products: their names, and what they depend on.

#include <mha/formats/onnx_projection.hpp>

namespace mha::io {

/// Whether a step multiplies two values that are both computed at run time.
bool is_onnx_product(const OnnxFlow& flow, const OnnxStep& step);

/// Whether a step is between two products like a layer's Softmax: it depends on one, and another
/// depends on it, without a projection or a Softmax between them.
bool is_between_products(const OnnxFlow& flow, const OnnxProjections& projections, int step);

/// Whether a value depends on a projection, not only on inputs, constants and lengths.
bool follows_from_projection(const OnnxFlow& flow, const OnnxProjections& projections, int value);

/// Whether a value depends on an input of the graph, even on one with fixed numbers such as a mask.
bool follows_from_input(const OnnxFlow& flow, int value);

/// The steps that compute a value, from the last one back to projections, products, Softmax and
/// inputs; their number is limited.
std::vector<int> onnx_steps_before(const OnnxFlow& flow, const OnnxProjections& projections,
                                   int value);

/// The first step on the way to a value whose shape is unknown or empty, with the steps before it.
std::vector<int> onnx_steps_of_unknown_shape(const OnnxFlow& flow,
                                             const OnnxProjections& projections, int value);

/// The steps that compute a product's operands.
std::vector<int> onnx_steps_before_product(const OnnxFlow& flow, const OnnxProjections& projections,
                                           const OnnxStep& product);

/// "'/h.0/Clip_2' (Clip)"; a step without a name has that of its output.
std::string onnx_step_in_words(const OnnxFlow& flow, int step);
/// The same for several steps: "'a' (Mul), 'b' (Add)".
std::string onnx_steps_in_words(const OnnxFlow& flow, const std::vector<int>& steps);
/// The steps for a message on why attention is not read: the known ones, and, if these only move
/// elements, also the steps that compute these values.
std::vector<int> onnx_steps_in_the_way(const OnnxFlow& flow, const OnnxProjections& projections,
                                       std::vector<int> known, std::initializer_list<int> values);

/// Steps in the place of a Softmax between two products, one for each pair.
std::vector<int> steps_instead_of_softmax(const OnnxFlow& flow, const OnnxProjections& projections);

} // namespace mha::io
