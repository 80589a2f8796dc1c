#pragma once
// Shapes of a graph's values for a short input, and the rules by which operators change them.

#include <mha/formats/onnx_flow.hpp>

namespace mha::io {

/// Computes, step by step, the shapes, the fixed values, the numbers of short fixed values, and the
/// branches of Ifs. Shapes without a rule stay unknown; a projection of such a value assumes an
/// input of one text of OnnxFlow::length tokens.
void infer_onnx_shapes(OnnxFlow& flow);

/// The first position and the number of positions of a slice of an axis of `length`.
std::pair<std::int64_t, std::int64_t> onnx_slice(std::int64_t start, std::int64_t end,
                                                 std::int64_t step, std::int64_t length);

/// The index of an axis, counted from the front; -1 if there is no such axis.
std::int64_t onnx_axis(std::int64_t axis, std::size_t rank);

class OnnxShapeRules {
public:
  explicit OnnxShapeRules(OnnxFlow& flow) : flow_(flow) {}

  // The shape of a step's first output, by its operator (onnx_rules.cpp).
  OnnxShapeRule first_input, broadcast_inputs, reshape, transpose, slice, gather, concat, squeeze,
      unsqueeze, flatten, expand, tile, rank_of_input, scalar, from_input_numbers, range, reduce;
  OnnxShapeRule product, gemm, einsum, conv, attention;
  /// The shapes of all outputs.
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

/// The shapes of a step's outputs; unknown ones are nullopt or missing.
std::vector<MaybeOnnxDims> onnx_shapes_of(OnnxFlow& flow, const OnnxStep& step);

} // namespace mha::io
