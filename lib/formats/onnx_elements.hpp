#pragma once
// Rules of single elements: private to onnx_elements.cpp and onnx_generated.cpp.

#include <mha/formats/onnx_contraction.hpp>

namespace mha::io {

using MaybeOnnxForm = std::optional<OnnxForm>;

/// Adds `factor` times a form; terms of one element become one.
void add_onnx_form(OnnxForm& sum, const OnnxForm& part, double factor);
OnnxForm scaled_onnx_form(const OnnxForm& form, double factor);

class OnnxElements {
public:
  explicit OnnxElements(const OnnxFlow& flow) : flow_(flow) {}
  OnnxForm form(int value, std::int64_t flat, int depth) const;

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
  MaybeOnnxForm made_by(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                        int depth) const;
  MaybeOnnxForm cast(const OnnxStep& step, std::int64_t flat, int depth) const;
  MaybeOnnxForm cast_like(const OnnxStep& step, std::int64_t flat, int depth) const;
  /// Notes a step whose numbers differ by the element, or that rounds, where terms pass it.
  void meet_table(const OnnxStep& step, bool is_sum = false) const;
  void meet_rounding(const OnnxStep& step, const MaybeOnnxForm& form) const;
  bool has_several(int value) const;
  bool drops_nothing(const OnnxStep& step) const;
  /// Operators that move elements.
  MaybeOnnxForm moved_by(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                         int depth) const;
  MaybeOnnxForm dequantised(const OnnxStep& step, std::int64_t flat, int depth) const;
  MaybeOnnxForm slice(const OnnxStep& step, const OnnxDims& in, OnnxPlaces places, int depth) const;
  MaybeOnnxForm split(const OnnxStep& step, const OnnxDims& in, int output, OnnxPlaces places,
                      int depth) const;
  MaybeOnnxForm concat(const OnnxStep& step, OnnxPlaces places, int depth) const;
  MaybeOnnxForm gather(const OnnxStep& step, const OnnxDims& in, const OnnxPlaces& places,
                       int depth) const;
  MaybeOnnxForm arithmetic(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                           int depth) const;
  /// Clip, Max and Min of numbers, and where their bounds are beyond what a layer computes.
  MaybeOnnxForm bounded(const OnnxStep& step, std::string_view op, const OnnxDims& out,
                        std::int64_t flat, int depth) const;
  /// Whether a condition asks for NaN in what a Where gives otherwise, to put 0 there.
  bool replaces_nan(const OnnxStep& step) const;
  MaybeOnnxForm where(const OnnxStep& step, const OnnxDims& out, std::int64_t flat,
                      int depth) const;
  /// Operators that make numbers.
  MaybeOnnxForm generated(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                          int depth) const;
  /// The number of a tensor of one element, as ConstantOfShape has it.
  static std::optional<double> scalar(const OnnxTensor& tensor);
  MaybeOnnxForm running_sum(const OnnxStep& step, const OnnxDims& out, std::int64_t flat,
                            int depth) const;
  /// A product of fixed numbers: positions times frequencies.
  MaybeOnnxForm fixed_sum(const OnnxStep& step, const OnnxDims& out, std::int64_t flat,
                          int depth) const;
  /// The operator: x cos ∓ its pair sin. com.microsoft has (x, positions, cos, sin), the standard
  /// (x, cos, sin, positions).
  MaybeOnnxForm rotary(const OnnxStep& step, const OnnxDims& out, std::int64_t flat,
                       int depth) const;

  const OnnxFlow& flow_;
};

} // namespace mha::io
