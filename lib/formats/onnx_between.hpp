#pragma once
// Steps that lie between an attention layer's products: their names, and what they depend on.

#include <mha/formats/onnx_projection.hpp>

namespace mha::io {

/// Whether a step multiplies two values that are both made while the model runs.
bool is_onnx_product(const OnnxFlow& flow, const OnnxStep& step);

/// Whether a step lies between two products as a layer's Softmax does: numbers of one reach it, and
/// its own reach another, through no projection and no Softmax on the way.
bool is_between_products(const OnnxFlow& flow, const OnnxProjections& projections, int step);

/// Whether a value is made of numbers that a projection gives, not of inputs, constants and lengths
/// alone.
bool follows_from_projection(const OnnxFlow& flow, const OnnxProjections& projections, int value);

/// Whether it is made of an input of the graph, be it one that counts as known.
bool follows_from_input(const OnnxFlow& flow, int value);

/// The steps that a value is made by, from the last one back to projections, products, Softmax and
/// inputs; at most some.
std::vector<int> onnx_steps_before(const OnnxFlow& flow, const OnnxProjections& projections,
                                   int value);

/// The step on the way to a value whose own lengths are the first that are not known, or are none,
/// with those before it.
std::vector<int> onnx_steps_of_unknown_shape(const OnnxFlow& flow,
                                             const OnnxProjections& projections, int value);

/// Those that a product's operands are made by.
std::vector<int> onnx_steps_before_product(const OnnxFlow& flow, const OnnxProjections& projections,
                                           const OnnxStep& product);

/// "'/h.0/Clip_2' (Clip)"; a step without a name is called as its output.
std::string onnx_step_in_words(const OnnxFlow& flow, int step);
/// The same of several: "'a' (Mul), 'b' (Add)".
std::string onnx_steps_in_words(const OnnxFlow& flow, const std::vector<int>& steps);
/// Steps that are known to be in the way; where none is, or one that could do nothing alone as it
/// only moves what others made, with those that these values are made by.
std::vector<int> onnx_steps_in_the_way(const OnnxFlow& flow, const OnnxProjections& projections,
                                       std::vector<int> known, std::initializer_list<int> values);

/// A step where a layer's Softmax would be, between two products that no layer has: each pair once.
std::vector<int> steps_instead_of_softmax(const OnnxFlow& flow, const OnnxProjections& projections);

} // namespace mha::io
