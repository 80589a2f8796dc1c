#include <mha/formats/onnx_rules.hpp>

#include <mha/formats/onnx_elements.hpp>
#include <mha/formats/onnx_shape_rules.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::io {

namespace {

using S = OnnxShapeRules;
using E = OnnxElements;
using Element = OnnxElementRule OnnxElements::*;

constexpr OnnxRule of_one(std::string_view op, double (*function)(double)) {
  return {op, &S::as_first, &E::of_one, function};
}
constexpr OnnxRule of_two(std::string_view op, double (*function)(double, double),
                          Element element = &E::arithmetic) {
  return {op, &S::broadcast_of_all, element, nullptr, function};
}

constexpr OnnxRule rules[]{
    of_one("Abs", [](double x) { return std::abs(x); }),
    of_two("Add", [](double x, double y) { return x + y; }),
    of_two("And", [](double x, double y) -> double { return x != 0 && y != 0; }),
    {"Attention", &S::attention},
    {"BatchNormalization", &S::as_first},
    {"BiasGelu", &S::as_first},
    {"BitwiseAnd", &S::broadcast_of_all},
    {"BitwiseOr", &S::broadcast_of_all},
    {"Cast", &S::as_first, &E::cast},
    {"CastLike", &S::as_first, &E::cast_like},
    of_one("Ceil", [](double x) { return std::ceil(x); }),
    {"Clip", &S::as_first, &E::bounded},
    {"Concat", &S::concat, &E::joined},
    {"ConstantOfShape", &S::from_numbers, &E::filled},
    {"Conv", &S::conv},
    of_one("Cos", [](double x) { return std::cos(x); }),
    {"CumSum", &S::as_first, &E::running_sum},
    {"DequantizeLinear", &S::as_first, &E::dequantised},
    of_two("Div", [](double x, double y) { return x / y; }),
    {"Dropout", &S::as_first, &E::dropout},
    {"Einsum", &S::einsum, &E::fixed_sum},
    {"Elu", &S::as_first},
    of_two("Equal", [](double x, double y) -> double { return x == y; }),
    of_one("Erf", [](double x) { return std::erf(x); }),
    of_one("Exp", [](double x) { return std::exp(x); }),
    {"Expand", &S::expand, &E::expanded},
    {"EyeLike", &S::as_first},
    {"FastGelu", &S::as_first},
    {"Flatten", &S::flatten, &E::same},
    of_one("Floor", [](double x) { return std::floor(x); }),
    {"FusedMatMul", &S::product, &E::fixed_sum, nullptr, nullptr, true},
    {"Gather", &S::gather, &E::gathered},
    {"Gelu", &S::as_first},
    {"Gemm", &S::gemm, &E::fixed_sum},
    of_two("Greater", [](double x, double y) -> double { return x > y; }),
    of_two("GreaterOrEqual", [](double x, double y) -> double { return x >= y; }),
    {"GroupNormalization", &S::as_first},
    {"GroupQueryAttention", &S::attention},
    {"HardSigmoid", &S::as_first},
    {"HardSwish", &S::as_first},
    {"Identity", &S::as_first, &E::same},
    {"InstanceNormalization", &S::as_first},
    of_one("IsInf", [](double x) -> double { return std::isinf(x); }),
    of_one("IsNaN", [](double x) -> double { return std::isnan(x); }),
    {"LayerNormalization", &S::as_first},
    {"LeakyRelu", &S::as_first},
    of_two("Less", [](double x, double y) -> double { return x < y; }),
    of_two("LessOrEqual", [](double x, double y) -> double { return x <= y; }),
    of_one("Log", [](double x) { return std::log(x); }),
    {"LogSoftmax", &S::as_first},
    {"MatMul", &S::product, &E::fixed_sum},
    of_two(
        "Max", [](double x, double y) { return std::max(x, y); }, &E::bounded),
    of_two(
        "Min", [](double x, double y) { return std::min(x, y); }, &E::bounded),
    of_two("Mod", [](double x, double y) { return y == 0 ? 0 : x - y * std::floor(x / y); }),
    of_two("Mul", [](double x, double y) { return x * y; }),
    {"MultiHeadAttention", &S::attention},
    {"Neg", &S::as_first, &E::negated, [](double x) { return -x; }},
    of_one("Not", [](double x) -> double { return x == 0; }),
    of_two("Or", [](double x, double y) -> double { return x != 0 || y != 0; }),
    {"PRelu", &S::broadcast_of_all},
    of_two("Pow", [](double x, double y) { return std::pow(x, y); }),
    {"QuantizeLinear", &S::as_first},
    {"QuickGelu", &S::as_first},
    {"RMSNormalization", &S::as_first},
    {"Range", &S::range, &E::range},
    of_one("Reciprocal", [](double x) { return 1 / x; }),
    {"ReduceL1", &S::reduce},
    {"ReduceL2", &S::reduce},
    {"ReduceLogSum", &S::reduce},
    {"ReduceLogSumExp", &S::reduce},
    {"ReduceMax", &S::reduce},
    {"ReduceMean", &S::reduce},
    {"ReduceMin", &S::reduce},
    {"ReduceProd", &S::reduce},
    {"ReduceSum", &S::reduce},
    {"ReduceSumSquare", &S::reduce},
    of_one("Relu", [](double x) { return std::max(x, 0.0); }),
    {"Reshape", &S::reshape, &E::same},
    {"RotaryEmbedding", &S::as_first, &E::rotary, nullptr, nullptr, true},
    of_one("Round", [](double x) { return std::nearbyint(x); }),
    {"ScatterElements", &S::as_first},
    {"ScatterND", &S::as_first},
    {"Shape", &S::length_of_shape, &E::length},
    of_one("Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }),
    of_one("Sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }),
    {"SimplifiedLayerNormalization", &S::as_first},
    of_one("Sin", [](double x) { return std::sin(x); }),
    {"Size", &S::scalar, &E::size},
    {"Slice", &S::slice, &E::sliced},
    {"Softmax", &S::as_first},
    {"Softplus", &S::as_first},
    {"Split", nullptr, &E::split},
    of_one("Sqrt", [](double x) { return std::sqrt(x); }),
    {"Squeeze", &S::squeeze, &E::same},
    of_two("Sub", [](double x, double y) { return x - y; }),
    of_one("Tanh", [](double x) { return std::tanh(x); }),
    {"Tile", &S::tile, &E::tiled},
    {"Transpose", &S::transpose, &E::transposed},
    {"Trilu", &S::as_first, &E::triangle},
    {"Unsqueeze", &S::unsqueeze, &E::same},
    {"Where", &S::broadcast_of_all, &E::where},
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
