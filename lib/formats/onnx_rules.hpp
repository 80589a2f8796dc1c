#pragma once
// Rules of operators: how the shapes of their outputs follow from those of their inputs, and what
// their elements are made of.

#include <cstdint>
#include <string_view>

namespace mha::io {

/// Of the lengths of the outputs' axes.
enum class OnnxShapeRule : std::uint8_t {
  unknown,
  as_first,
  broadcast,
  split,
  reshape,
  transpose,
  slice,
  gather,
  concat,
  squeeze,
  unsqueeze,
  flatten,
  expand,
  tile,
  shape,
  scalar,
  from_numbers, ///< of the first input
  range,
  reduce,
  product,
  gemm,
  einsum,
  conv,
  attention,
};

/// Of an output's single elements.
enum class OnnxElementRule : std::uint8_t {
  none,   ///< terms of sums
  passed, ///< the first input's, in their order
  dropout,
  cast,
  cast_like,
  dequantised,
  expand,
  transpose,
  tile,
  slice,
  split,
  concat,
  gather,
  where,
  bounded,
  negated,
  of_one, ///< a function of one number, where that is known
  sum,
  product, ///< or quotient
  of_two,  ///< a function of two numbers, where these are known
  shape,
  size,
  filled,
  range,
  triangle,
  running_sum,
  contraction,
  rotary,
};

struct OnnxRule {
  std::string_view op;
  OnnxShapeRule shape = OnnxShapeRule::unknown;
  OnnxElementRule element = OnnxElementRule::none;
  double (*of_one)(double) = nullptr;         ///< what it makes of one number,
  double (*of_two)(double, double) = nullptr; ///< or of two
  /// Whether its elements are those of the standard's operator in other domains, too.
  bool any_domain = false;
};

/// That of an operator's name; one that says nothing where none is known.
const OnnxRule& onnx_rule(std::string_view op);

} // namespace mha::io
