#pragma once
// Shapes of a graph's values for a short input, and the rules by which operators change them.

#include <mha/formats/onnx_flow.hpp>

namespace mha::io {

/// Sets shapes, what is fixed and the numbers of short fixed values, step by step; which branch of
/// an If is the one. What no rule gives stays unknown, and a projection then takes an input of one
/// text of OnnxFlow::length tokens.
void infer_onnx_shapes(OnnxFlow& flow);

/// The first place of a slice and how many there are, of an axis of `length`.
std::pair<std::int64_t, std::int64_t> onnx_slice(std::int64_t start, std::int64_t end,
                                                 std::int64_t step, std::int64_t length);

/// An axis' place counted from the front; -1 where there is none.
std::int64_t onnx_axis(std::int64_t axis, std::size_t rank);

class OnnxShapeRules {
public:
  explicit OnnxShapeRules(OnnxFlow& flow) : flow_(flow) {}

  // Of a step's first output, by its operator (onnx_rules.cpp).
  OnnxShapeRule as_first, broadcast_of_all, reshape, transpose, slice, gather, concat, squeeze,
      unsqueeze, flatten, expand, tile, length_of_shape, scalar, from_numbers, range, reduce;
  OnnxShapeRule product, gemm, einsum, conv, attention;
  /// Of all outputs.
  std::vector<MaybeOnnxDims> split(const OnnxStep& step) const;

private:
  MaybeOnnxDims broadcast(const MaybeOnnxDims& a, const MaybeOnnxDims& b) const;
  MaybeOnnxDims shape(const OnnxStep& step, std::size_t place) const;
  /// The integers of a fixed input.
  MaybeOnnxDims integers(const OnnxStep& step, std::size_t place) const;
  /// An attribute, or in newer opsets an input.
  MaybeOnnxDims attribute_or_input(const OnnxStep& step, std::string_view attribute,
                                   std::size_t place) const;
  static std::pair<std::int64_t, std::int64_t> shape_range(const OnnxStep& step, std::size_t rank);
  void note_exported_length(const OnnxDims& target, std::int64_t target_count,
                            std::int64_t input_count) const;
  static std::optional<std::vector<bool>> marked_axes(const OnnxDims& axes, std::size_t rank);

  OnnxFlow& flow_;
};

/// The shapes of a step's outputs, as far as they are known.
std::vector<MaybeOnnxDims> onnx_shapes_of(OnnxFlow& flow, const OnnxStep& step);

} // namespace mha::io
