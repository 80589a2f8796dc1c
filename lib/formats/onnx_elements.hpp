#pragma once
// Rules for single elements. Private to the files of the rules.

#include <mha/formats/onnx_contraction.hpp>

namespace mha::io {

/// Adds `factor` times a form, and merges terms of the same element.
void add_onnx_form(OnnxForm& sum, const OnnxForm& part, double factor);
OnnxForm scaled_onnx_form(const OnnxForm& form, double factor);

class OnnxElements {
public:
  explicit OnnxElements(const OnnxFlow& flow) : flow_(flow) {}
  OnnxForm form(int value, std::int64_t flat, int depth) const;

  // The element of a step's output as a sum (onnx_rules.cpp); nothing if it is not a sum.
  OnnxElementRule unchanged, ///< the first input's element at the same flat index
      dropout, cast, cast_like, dequantised;
  OnnxElementRule expanded, transposed, tiled, sliced, split, joined, gathered; ///< only moved
  OnnxElementRule arithmetic, negated;
  OnnxElementRule unary; ///< a function of one known number
  OnnxElementRule
      bounded; ///< Clip, Max and Min of numbers, or with bounds beyond a layer's numbers
  OnnxElementRule where;
  OnnxElementRule axis_length, element_count, filled, range, triangle, running_sum; ///< generated
  OnnxElementRule fixed_product; ///< a product of fixed numbers: positions times frequencies
  /// RotaryEmbedding: x cos ∓ its pair sin. The inputs of com.microsoft's are (x, positions, cos,
  /// sin), those of the standard operator (x, cos, sin, positions).
  OnnxElementRule rotary;

private:
  static MaybeOnnxForm of_number(std::optional<double> number);
  MaybeOnnxForm constant(const OnnxValue& of, std::int64_t flat) const;
  /// Elements of inputs with fixed numbers: masks are 1, positions count, the cache branch is 0.
  MaybeOnnxForm input(const OnnxValue& of, std::int64_t flat) const;
  MaybeOnnxForm passed(const OnnxStep& step, std::size_t place, std::int64_t flat, int depth) const;
  std::optional<double> number(const OnnxStep& step, std::size_t place, std::int64_t flat,
                               int depth) const;
  /// The element of an input that broadcasting repeats in the output.
  MaybeOnnxForm repeated(const OnnxStep& step, std::size_t place, const OnnxDims& out,
                         std::int64_t flat, int depth) const;
  OnnxElementRule made_by; ///< by the step's own rule
  /// Records a step that treats elements differently, or that rounds, if terms pass through it.
  void meet_table(const OnnxStep& step, bool is_sum = false) const;
  void meet_rounding(const OnnxStep& step, const MaybeOnnxForm& form) const;
  bool has_several(int value) const;
  bool drops_nothing(const OnnxStep& step) const;
  /// Whether a Where replaces NaN with 0.
  bool replaces_nan(const OnnxStep& step) const;
  /// The number of a tensor of one element, for ConstantOfShape.
  static std::optional<double> scalar(const OnnxTensor& tensor);

  const OnnxFlow& flow_;
};

} // namespace mha::io
