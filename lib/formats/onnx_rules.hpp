#pragma once
// Rules of operators for the shapes of their outputs and for single elements.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mha::io {

class OnnxElements;
class OnnxShapeRules;
struct OnnxForm;
struct OnnxStep;
struct OnnxValue;
using MaybeOnnxForm = std::optional<OnnxForm>;
using MaybeOnnxDims = std::optional<std::vector<std::int64_t>>;
/// Computes the shape of the first output.
using OnnxShapeRule = MaybeOnnxDims(const OnnxStep& step) const;
/// Computes one element of an output as a sum: element `flat` of `of`.
using OnnxElementRule = MaybeOnnxForm(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                      int depth) const;

struct OnnxRule {
  std::string_view op;
  OnnxShapeRule OnnxShapeRules::*shape = nullptr;   ///< null if unknown; Split has several outputs
  OnnxElementRule OnnxElements::*element = nullptr; ///< null if elements are not traced further
  double (*unary)(double) = nullptr;                ///< the function of one number
  double (*binary)(double, double) = nullptr;       ///< the function of two numbers
  bool any_domain = false; ///< whether the element rule also holds in other domains
};

/// The rule of an operator; an empty rule for unknown operators.
const OnnxRule& onnx_rule(std::string_view op);

} // namespace mha::io
