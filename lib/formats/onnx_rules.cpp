#include <mha/formats/onnx_rules.hpp>

#include <mha/formats/onnx_elements.hpp>
#include <mha/formats/onnx_shapes.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::io {

namespace {

using Shapes = OnnxShapeRules;
using Elements = OnnxElements;
using ElementRule = OnnxElementRule OnnxElements::*;

constexpr OnnxRule of_one(std::string_view op, double (*function)(double)) {
  return {op, &Shapes::like_first_input, &Elements::of_one, function};
}
constexpr OnnxRule of_two(std::string_view op, double (*function)(double, double),
                          ElementRule element = &Elements::arithmetic) {
  return {op, &Shapes::broadcast_inputs, element, nullptr, function};
}

constexpr OnnxRule rules[]{
    of_one("Abs", [](double x) { return std::abs(x); }),
    of_two("Add", [](double x, double y) { return x + y; }),
    of_two("And", [](double x, double y) -> double { return x != 0 && y != 0; }),
    {"Attention", &Shapes::attention},
    {"BatchNormalization", &Shapes::like_first_input},
    {"BiasGelu", &Shapes::like_first_input},
    {"BitwiseAnd", &Shapes::broadcast_inputs},
    {"BitwiseOr", &Shapes::broadcast_inputs},
    {"Cast", &Shapes::like_first_input, &Elements::cast},
    {"CastLike", &Shapes::like_first_input, &Elements::cast_like},
    of_one("Ceil", [](double x) { return std::ceil(x); }),
    {"Clip", &Shapes::like_first_input, &Elements::bounded},
    {"Concat", &Shapes::concat, &Elements::joined},
    {"ConstantOfShape", &Shapes::constant_of_shape, &Elements::filled},
    {"Conv", &Shapes::conv},
    of_one("Cos", [](double x) { return std::cos(x); }),
    {"CumSum", &Shapes::like_first_input, &Elements::running_sum},
    {"DequantizeLinear", &Shapes::like_first_input, &Elements::dequantised},
    of_two("Div", [](double x, double y) { return x / y; }),
    {"Dropout", &Shapes::like_first_input, &Elements::dropout},
    {"Einsum", &Shapes::einsum, &Elements::fixed_sum},
    {"Elu", &Shapes::like_first_input},
    of_two("Equal", [](double x, double y) -> double { return x == y; }),
    of_one("Erf", [](double x) { return std::erf(x); }),
    of_one("Exp", [](double x) { return std::exp(x); }),
    {"Expand", &Shapes::expand, &Elements::expanded},
    {"EyeLike", &Shapes::like_first_input},
    {"FastGelu", &Shapes::like_first_input},
    {"Flatten", &Shapes::flatten, &Elements::same},
    of_one("Floor", [](double x) { return std::floor(x); }),
    {"FusedMatMul", &Shapes::product, &Elements::fixed_sum, nullptr, nullptr, true},
    {"Gather", &Shapes::gather, &Elements::gathered},
    {"Gelu", &Shapes::like_first_input},
    {"Gemm", &Shapes::gemm, &Elements::fixed_sum},
    of_two("Greater", [](double x, double y) -> double { return x > y; }),
    of_two("GreaterOrEqual", [](double x, double y) -> double { return x >= y; }),
    {"GroupNormalization", &Shapes::like_first_input},
    {"GroupQueryAttention", &Shapes::attention},
    {"HardSigmoid", &Shapes::like_first_input},
    {"HardSwish", &Shapes::like_first_input},
    {"Identity", &Shapes::like_first_input, &Elements::same},
    {"InstanceNormalization", &Shapes::like_first_input},
    of_one("IsInf", [](double x) -> double { return std::isinf(x); }),
    of_one("IsNaN", [](double x) -> double { return std::isnan(x); }),
    {"LayerNormalization", &Shapes::like_first_input},
    {"LeakyRelu", &Shapes::like_first_input},
    of_two("Less", [](double x, double y) -> double { return x < y; }),
    of_two("LessOrEqual", [](double x, double y) -> double { return x <= y; }),
    of_one("Log", [](double x) { return std::log(x); }),
    {"LogSoftmax", &Shapes::like_first_input},
    {"MatMul", &Shapes::product, &Elements::fixed_sum},
    of_two(
        "Max", [](double x, double y) { return std::max(x, y); }, &Elements::bounded),
    of_two(
        "Min", [](double x, double y) { return std::min(x, y); }, &Elements::bounded),
    of_two("Mod", [](double x, double y) { return y == 0 ? 0 : x - y * std::floor(x / y); }),
    of_two("Mul", [](double x, double y) { return x * y; }),
    {"MultiHeadAttention", &Shapes::attention},
    {"Neg", &Shapes::like_first_input, &Elements::negated, [](double x) { return -x; }},
    of_one("Not", [](double x) -> double { return x == 0; }),
    of_two("Or", [](double x, double y) -> double { return x != 0 || y != 0; }),
    {"PRelu", &Shapes::broadcast_inputs},
    of_two("Pow", [](double x, double y) { return std::pow(x, y); }),
    {"QuantizeLinear", &Shapes::like_first_input},
    {"QuickGelu", &Shapes::like_first_input},
    {"RMSNormalization", &Shapes::like_first_input},
    {"Range", &Shapes::range, &Elements::range},
    of_one("Reciprocal", [](double x) { return 1 / x; }),
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
    of_one("Relu", [](double x) { return std::max(x, 0.0); }),
    {"Reshape", &Shapes::reshape, &Elements::same},
    {"RotaryEmbedding", &Shapes::like_first_input, &Elements::rotary, nullptr, nullptr, true},
    of_one("Round", [](double x) { return std::nearbyint(x); }),
    {"ScatterElements", &Shapes::like_first_input},
    {"ScatterND", &Shapes::like_first_input},
    {"Shape", &Shapes::shape_operator, &Elements::length},
    of_one("Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }),
    of_one("Sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }),
    {"SimplifiedLayerNormalization", &Shapes::like_first_input},
    of_one("Sin", [](double x) { return std::sin(x); }),
    {"Size", &Shapes::scalar, &Elements::size},
    {"Slice", &Shapes::slice, &Elements::sliced},
    {"Softmax", &Shapes::like_first_input},
    {"Softplus", &Shapes::like_first_input},
    {"Split", nullptr, &Elements::split},
    of_one("Sqrt", [](double x) { return std::sqrt(x); }),
    {"Squeeze", &Shapes::squeeze, &Elements::same},
    of_two("Sub", [](double x, double y) { return x - y; }),
    of_one("Tanh", [](double x) { return std::tanh(x); }),
    {"Tile", &Shapes::tile, &Elements::tiled},
    {"Transpose", &Shapes::transpose, &Elements::transposed},
    {"Trilu", &Shapes::like_first_input, &Elements::triangle},
    {"Unsqueeze", &Shapes::unsqueeze, &Elements::same},
    {"Where", &Shapes::broadcast_inputs, &Elements::where},
    of_two("Xor", [](double x, double y) -> double { return (x != 0) != (y != 0); }),
};
static_assert(std::ranges::is_sorted(rules, {}, &OnnxRule::op));

} // namespace

const OnnxRule& onnx_rule(std::string_view op) {
  static constexpr OnnxRule none;
  const auto* const found = std::ranges::lower_bound(rules, op, {}, &OnnxRule::op);
  return found != std::end(rules) && found->op == op ? *found : none;
}

} // namespace mha::io
