#pragma once
// Rules of shapes: private to onnx_shapes.cpp and the files of its rules.

#include <mha/formats/onnx_flow.hpp>

namespace mha::io {

using MaybeOnnxDims = std::optional<OnnxDims>;

/// What a rule asks of a step's inputs.
class OnnxShapeInputs {
public:
  explicit OnnxShapeInputs(OnnxFlow& flow) : flow_(flow) {}
  MaybeOnnxDims broadcast(const MaybeOnnxDims& a, const MaybeOnnxDims& b) const;
  MaybeOnnxDims shape(const OnnxStep& step, std::size_t place) const;
  /// The integers of a fixed input.
  MaybeOnnxDims integers(const OnnxStep& step, std::size_t place) const;
  /// An attribute, or in newer opsets an input.
  MaybeOnnxDims attribute_or_input(const OnnxStep& step, std::string_view attribute,
                                   std::size_t place) const;

protected:
  OnnxFlow& flow_;
};

/// The shapes of a step's outputs, as far as they are known.
std::vector<MaybeOnnxDims> onnx_shapes_of(OnnxFlow& flow, const OnnxStep& step);
/// The same of products, convolutions and attention.
MaybeOnnxDims onnx_product_shape(OnnxFlow& flow, const OnnxStep& step);

} // namespace mha::io
