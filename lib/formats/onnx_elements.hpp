#pragma once
// Rules of single elements: private to onnx_elements.cpp and onnx_generated.cpp.

#include <mha/formats/onnx_contraction.hpp>

namespace mha::io {

/// Adds `factor` times a form; terms of one element become one.
void add_onnx_form(OnnxForm& sum, const OnnxForm& part, double factor);
OnnxForm scaled_onnx_form(const OnnxForm& form, double factor);

class OnnxElements {
public:
  explicit OnnxElements(const OnnxFlow& flow) : flow_(flow) {}
  OnnxForm form(int value, std::int64_t flat, int depth) const;

  // What a step makes an element of (onnx_rules.cpp); nothing where that is no sum.
  OnnxElementRule same, ///< the first input's element at the same flat index
      dropout, cast, cast_like, dequantised;
  OnnxElementRule expanded, transposed, tiled, sliced, split, joined, gathered; ///< moved
  OnnxElementRule arithmetic, negated;
  OnnxElementRule of_one;  ///< a function of one number, where that is known
  OnnxElementRule bounded; ///< Clip, Max and Min of numbers, and where their bounds are beyond what
                           ///< a layer computes
  OnnxElementRule where;
  OnnxElementRule length, size, filled, range, triangle, running_sum; ///< made
  OnnxElementRule fixed_sum; ///< a product of fixed numbers: positions times frequencies
  /// The operator: x cos ∓ its pair sin. com.microsoft has (x, positions, cos, sin), the standard
  /// (x, cos, sin, positions).
  OnnxElementRule rotary;

private:
  static MaybeOnnxForm of_number(std::optional<double> number);
  MaybeOnnxForm constant(const OnnxValue& of, std::int64_t flat) const;
  /// A mask of ones, positions that count, the branch without a cache.
  MaybeOnnxForm input(const OnnxValue& of, std::int64_t flat) const;
  MaybeOnnxForm passed(const OnnxStep& step, std::size_t place, std::int64_t flat, int depth) const;
  std::optional<double> number(const OnnxStep& step, std::size_t place, std::int64_t flat,
                               int depth) const;
  /// An input at the place of the output that repeats it.
  MaybeOnnxForm repeated(const OnnxStep& step, std::size_t place, const OnnxDims& out,
                         std::int64_t flat, int depth) const;
  OnnxElementRule made_by; ///< by the step's own rule
  /// Notes a step whose numbers differ by the element, or that rounds, where terms pass it.
  void meet_table(const OnnxStep& step, bool is_sum = false) const;
  void meet_rounding(const OnnxStep& step, const MaybeOnnxForm& form) const;
  bool has_several(int value) const;
  bool drops_nothing(const OnnxStep& step) const;
  /// Whether a condition asks for NaN in what a Where gives otherwise, to put 0 there.
  bool replaces_nan(const OnnxStep& step) const;
  /// The number of a tensor of one element, as ConstantOfShape has it.
  static std::optional<double> scalar(const OnnxTensor& tensor);

  const OnnxFlow& flow_;
};

} // namespace mha::io
