#pragma once
// Rules of operators: how the shapes of their outputs follow from those of their inputs, and what
// their elements are made of.

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
/// Of the lengths of the first output's axes.
using OnnxShapeRule = MaybeOnnxDims(const OnnxStep& step) const;
/// Of an output's single elements, `flat` of `of`.
using OnnxElementRule = MaybeOnnxForm(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                      int depth) const;

struct OnnxRule {
  std::string_view op;
  OnnxShapeRule OnnxShapeRules::*shape = nullptr;   ///< null: not known, or of each output (Split)
  OnnxElementRule OnnxElements::*element = nullptr; ///< null: they are terms of sums
  double (*of_one)(double) = nullptr;               ///< what it makes of one number,
  double (*of_two)(double, double) = nullptr;       ///< or of two
  /// Whether its elements are those of the standard's operator in other domains, too.
  bool any_domain = false;
};

/// That of an operator's name; one that says nothing where none is known.
const OnnxRule& onnx_rule(std::string_view op);

} // namespace mha::io
