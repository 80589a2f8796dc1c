#include <mha/formats/onnx_rules.hpp>

#include <mha/formats/onnx_elements.hpp>
#include <mha/formats/onnx_shapes.hpp>
#include <mha/maths/functions.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::io {

namespace {

using Shapes = OnnxShapeRules;
using Elements = OnnxElements;
using ShapeRule = OnnxShapeRule OnnxShapeRules::*;
using ElementRule = OnnxElementRule OnnxElements::*;

/// Operators that apply a function to each number, or to each pair of numbers.

constexpr OnnxRule unary(std::string_view op, double (*function)(double)) {
  return {op, &Shapes::first_input, &Elements::unary, function};
}
constexpr OnnxRule binary(std::string_view op, double (*function)(double, double),
                          ElementRule element = &Elements::arithmetic) {
  return {op, &Shapes::broadcast_inputs, element, nullptr, function};
}

/// An operator whose element rule also holds outside the standard domain.
constexpr OnnxRule in_any_domain(std::string_view op, ShapeRule shape, ElementRule element) {
  return {op, shape, element, nullptr, nullptr, true};
}

/// Sorted by operator, for a binary search. Elements of operators without an element rule are not
/// traced further.
constexpr OnnxRule rules[]{
    unary("Abs", [](double x) { return std::abs(x); }),
    binary("Add", [](double x, double y) { return x + y; }),
    binary("And", [](double x, double y) -> double { return x != 0 && y != 0; }),
    {"Attention", &Shapes::attention},
    {"BatchNormalization", &Shapes::first_input},
    {"BiasGelu", &Shapes::first_input},
    {"BitwiseAnd", &Shapes::broadcast_inputs},
    {"BitwiseOr", &Shapes::broadcast_inputs},
    {"Cast", &Shapes::first_input, &Elements::cast},
    {"CastLike", &Shapes::first_input, &Elements::cast_like},
    unary("Ceil", [](double x) { return std::ceil(x); }),
    {"Clip", &Shapes::first_input, &Elements::bounded},
    {"Concat", &Shapes::concat, &Elements::joined},
    {"ConstantOfShape", &Shapes::from_input_numbers, &Elements::filled},
    {"Conv", &Shapes::conv},
    unary("Cos", [](double x) { return maths::cos(x); }),
    {"CumSum", &Shapes::first_input, &Elements::running_sum},
    {"DequantizeLinear", &Shapes::first_input, &Elements::dequantised},
    binary("Div", [](double x, double y) { return x / y; }),
    {"Dropout", &Shapes::first_input, &Elements::dropout},
    {"Einsum", &Shapes::einsum, &Elements::fixed_product},
    {"Elu", &Shapes::first_input},
    binary("Equal", [](double x, double y) -> double { return x == y; }),
    unary("Erf", [](double x) { return maths::erf(x); }),
    unary("Exp", [](double x) { return maths::exp(x); }),
    {"Expand", &Shapes::expand, &Elements::expanded},
    {"EyeLike", &Shapes::first_input},
    {"FastGelu", &Shapes::first_input},
    {"Flatten", &Shapes::flatten, &Elements::unchanged},
    unary("Floor", [](double x) { return std::floor(x); }),
    in_any_domain("FusedMatMul", &Shapes::product, &Elements::fixed_product),
    {"Gather", &Shapes::gather, &Elements::gathered},
    {"Gelu", &Shapes::first_input},
    {"Gemm", &Shapes::gemm, &Elements::fixed_product},
    binary("Greater", [](double x, double y) -> double { return x > y; }),
    binary("GreaterOrEqual", [](double x, double y) -> double { return x >= y; }),
    {"GroupNormalization", &Shapes::first_input},
    {"GroupQueryAttention", &Shapes::attention},
    {"HardSigmoid", &Shapes::first_input},
    {"HardSwish", &Shapes::first_input},
    {"Identity", &Shapes::first_input, &Elements::unchanged},
    {"InstanceNormalization", &Shapes::first_input},
    unary("IsInf", [](double x) -> double { return std::isinf(x); }),
    unary("IsNaN", [](double x) -> double { return std::isnan(x); }),
    {"LayerNormalization", &Shapes::first_input},
    {"LeakyRelu", &Shapes::first_input},
    binary("Less", [](double x, double y) -> double { return x < y; }),
    binary("LessOrEqual", [](double x, double y) -> double { return x <= y; }),
    unary("Log", [](double x) { return maths::log(x); }),
    {"LogSoftmax", &Shapes::first_input},
    {"MatMul", &Shapes::product, &Elements::fixed_product},
    binary(
        "Max", [](double x, double y) { return std::max(x, y); }, &Elements::bounded),
    binary(
        "Min", [](double x, double y) { return std::min(x, y); }, &Elements::bounded),
    binary("Mod", [](double x, double y) { return y == 0 ? 0 : x - y * std::floor(x / y); }),
    binary("Mul", [](double x, double y) { return x * y; }),
    {"MultiHeadAttention", &Shapes::attention},
    {"Neg", &Shapes::first_input, &Elements::negated, [](double x) { return -x; }},
    unary("Not", [](double x) -> double { return x == 0; }),
    binary("Or", [](double x, double y) -> double { return x != 0 || y != 0; }),
    {"PRelu", &Shapes::broadcast_inputs},
    binary("Pow", [](double x, double y) { return maths::pow(x, y); }),
    {"QuantizeLinear", &Shapes::first_input},
    {"QuickGelu", &Shapes::first_input},
    {"RMSNormalization", &Shapes::first_input},
    {"Range", &Shapes::range, &Elements::range},
    unary("Reciprocal", [](double x) { return 1 / x; }),
    {"ReduceL1", &Shapes::reduce},
    {"ReduceL2", &Shapes::reduce},
    {"ReduceLogSum", &Shapes::reduce},
    {"ReduceLogSumExp", &Shapes::reduce},
    {"ReduceMax", &Shapes::reduce},
    {"ReduceMean", &Shapes::reduce},
    {"ReduceMin", &Shapes::reduce},
    {"ReduceProd", &Shapes::reduce},
    {"ReduceSum", &Shapes::reduce},
    {"ReduceSumSquare", &Shapes::reduce},
    unary("Relu", [](double x) { return std::max(x, 0.0); }),
    {"Reshape", &Shapes::reshape, &Elements::unchanged},
    in_any_domain("RotaryEmbedding", &Shapes::first_input, &Elements::rotary),
    unary("Round", [](double x) { return std::nearbyint(x); }),
    {"ScatterElements", &Shapes::first_input},
    {"ScatterND", &Shapes::first_input},
    {"Shape", &Shapes::rank_of_input, &Elements::axis_length},
    unary("Sigmoid", [](double x) { return 1 / (1 + maths::exp(-x)); }),
    unary("Sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }),
    {"SimplifiedLayerNormalization", &Shapes::first_input},
    unary("Sin", [](double x) { return maths::sin(x); }),
    {"Size", &Shapes::scalar, &Elements::element_count},
    {"Slice", &Shapes::slice, &Elements::sliced},
    {"Softmax", &Shapes::first_input},
    {"Softplus", &Shapes::first_input},
    {"Split", nullptr, &Elements::split},
    unary("Sqrt", [](double x) { return std::sqrt(x); }),
    {"Squeeze", &Shapes::squeeze, &Elements::unchanged},
    binary("Sub", [](double x, double y) { return x - y; }),
    unary("Tanh", [](double x) { return maths::tanh(x); }),
    {"Tile", &Shapes::tile, &Elements::tiled},
    {"Transpose", &Shapes::transpose, &Elements::transposed},
    {"Trilu", &Shapes::first_input, &Elements::triangle},
    {"Unsqueeze", &Shapes::unsqueeze, &Elements::unchanged},
    {"Where", &Shapes::broadcast_inputs, &Elements::where},
    binary("Xor", [](double x, double y) -> double { return (x != 0) != (y != 0); }),
};
static_assert(std::ranges::is_sorted(rules, {}, &OnnxRule::op));

} // namespace

const OnnxRule& onnx_rule(std::string_view op) {
  static constexpr OnnxRule no_rule;
  const auto* const found = std::ranges::lower_bound(rules, op, {}, &OnnxRule::op);
  return found != std::end(rules) && found->op == op ? *found : no_rule;
}

} // namespace mha::io
