#pragma once
// Linear maps of a graph: MatMul, Gemm, Einsum or Conv of size 1 with a fixed weight, and the bias
// that is added to their output.

#include <mha/formats/onnx_contraction.hpp>

namespace mha::io {

struct OnnxProjection {
  int step = -1;
  int x = -1, weight = -1, bias = -1; ///< values; the bias is -1 if there is none
  int product = -1;                   ///< the output of the step
  int out = -1;                       ///< the output with the bias, if one is added
  std::string x_axes, weight_axes, out_axes;
  std::size_t in_width = 0, out_width = 0;
  bool plain = true; ///< there is no other factor than the weight

  /// The row and column of an element of `out`; the row counts all axes that are not columns.
  std::pair<std::int64_t, std::int64_t> place(const OnnxFlow& flow, std::int64_t flat) const;
  /// The flat index in x of a summed column in a row as place() counts it.
  std::int64_t input_at(const OnnxFlow& flow, std::int64_t column, std::int64_t row = 0) const;
  /// The number of rows, one for each token of all texts.
  std::int64_t rows(const OnnxFlow& flow) const;
  /// The weight, (in, out).
  Tensor matrix(const OnnxFlow& flow) const;
  DType dtype(const OnnxFlow& flow) const;
};

class OnnxProjections {
public:
  /// Finds all projections, and makes forms stop at their outputs.
  explicit OnnxProjections(OnnxFlow& flow);
  /// The projection with this output, or nullptr.
  const OnnxProjection* of(int value) const;
  /// The projection of a step, or nullptr.
  const OnnxProjection* of_step(int step) const;

private:
  void add(OnnxFlow& flow, OnnxProjection one);
  void add_operator(OnnxFlow& flow, int step);

  std::vector<OnnxProjection> all_;
  std::unordered_map<int, std::size_t> by_output_, by_step_;
};

/// The dtype of OnnxFlow::tensor() for a fixed value.
DType onnx_weight_dtype(const OnnxFlow& flow, int value);

} // namespace mha::io
