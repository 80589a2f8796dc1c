#pragma once
// Linear maps of a graph: MatMul, Gemm, Einsum or Conv of width 1 with a fixed weight, and the bias
// that is added to what they give.

#include <mha/formats/onnx_contraction.hpp>

namespace mha::io {

struct OnnxProjection {
  int step = -1;
  int x = -1, weight = -1, bias = -1; ///< values; bias -1: none
  int product = -1;                   ///< what the step gives
  int out = -1;                       ///< the same with the bias, where one is added
  std::string x_axes, weight_axes, out_axes;
  std::size_t in_width = 0, out_width = 0;
  bool plain = true; ///< nothing is multiplied beside the weight

  /// The row and column of an element of `out`; the row counts the axes that are no column.
  std::pair<std::int64_t, std::int64_t> place(const OnnxFlow& flow, std::int64_t flat) const;
  /// The flat index in x of `column` of the width that is summed, in a row as place() counts them.
  std::int64_t input_at(const OnnxFlow& flow, std::int64_t column, std::int64_t row = 0) const;
  /// How many rows it has: of all texts, one a token.
  std::int64_t rows(const OnnxFlow& flow) const;
  /// The weight, (in, out).
  Tensor matrix(const OnnxFlow& flow) const;
  DType dtype(const OnnxFlow& flow) const;
};

class OnnxProjections {
public:
  /// Finds all, and lets forms stop at their outputs.
  explicit OnnxProjections(OnnxFlow& flow);
  /// The one whose output a value is, or nullptr.
  const OnnxProjection* of(int value) const;
  /// The one that a step is, or nullptr.
  const OnnxProjection* of_step(int step) const;

private:
  void add(OnnxFlow& flow, OnnxProjection one);
  void add_operator(OnnxFlow& flow, int step);

  std::vector<OnnxProjection> all_;
  std::unordered_map<int, std::size_t> by_output_, by_step_;
};

/// The dtype of the numbers that OnnxFlow::tensor gives for a fixed value.
DType onnx_weight_dtype(const OnnxFlow& flow, int value);

} // namespace mha::io
