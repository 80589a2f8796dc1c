// Computes the weights of a product from constants, through the operators that process them before
// the product.

#include <mha/formats/onnx_contraction.hpp>
#include <mha/formats/onnx_shapes.hpp>

#include <mha/files/text.hpp>
#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

constexpr int max_operators = 32; ///< between a constant and its product

bool only_reshapes(std::string_view op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze" ||
         op == "Identity";
}
bool is_plain_arithmetic(std::string_view op) {
  return op == "Add" || op == "Sub" || op == "Mul" || op == "Div";
}

Shape shape_from(const OnnxDims& dims) {
  return {dims.begin(), dims.end()};
}

} // namespace

/// Computes the tensors of values that depend only on constants.
class OnnxWeights {
public:
  OnnxWeights(const OnnxFlow& flow, const std::string& where) : flow_(flow), where_(where) {}

  /// Whether make() can compute the value.
  bool can_make(int value, int depth) const {
    value = flow_.resolved(value);
    if (value < 0 || depth > max_operators || !flow_.at(value).shape) return false;
    if (flow_.at(value).constant >= 0) return true;
    const OnnxStep* step = flow_.maker(value);
    if (!step || !flow_.at(value).fixed || !step->node->domain.empty()) return false;
    const std::string_view op = step->node->op;
    const auto is_constant = [&](std::size_t place) {
      const int input = flow_.resolved(step->input(place));
      return input >= 0 && flow_.at(input).constant >= 0;
    };
    // Only one operand is followed, because following both would double the work with each step.
    if (op == "DequantizeLinear")
      return is_constant(1) && (step->input(2) < 0 || is_constant(2)) &&
             keeps_count(*step, 0, value) && can_make(step->input(0), depth + 1);
    if (is_plain_arithmetic(op))
      return (is_constant(1) && keeps_count(*step, 0, value) &&
              can_make(step->input(0), depth + 1)) ||
             (is_constant(0) && keeps_count(*step, 1, value) &&
              can_make(step->input(1), depth + 1));
    if (op == "Slice")
      return single_slice(*step).has_value() && can_make(step->input(0), depth + 1);
    if (op == "Gather")
      return single_gather(*step).has_value() && can_make(step->input(0), depth + 1);
    if (op == "Cast" && flow_.at(value).whole && !flow_.at(flow_.resolved(step->input(0))).whole)
      return false; // a Cast to integers truncates
    return (only_reshapes(op) || op == "Transpose" || op == "Cast" || op == "Split") &&
           can_make(step->input(0), depth + 1);
  }

  Tensor make(int value, int depth = 0) const {
    value = flow_.resolved(value);
    const OnnxValue& target = flow_.at(value);
    if (target.constant >= 0)
      return flow_.constants[static_cast<std::size_t>(target.constant)].array.read();
    if (!can_make(value, depth)) {
      const OnnxStep* maker = flow_.maker(value);
      fail("{}: {} is computed by {}, which cannot be evaluated to constant numbers", where_,
           shown(target.name), maker ? shown(maker->node->op) : "nothing");
    }
    const OnnxStep& step = *flow_.maker(value);
    const std::string_view op = step.node->op;
    const Shape shape = shape_from(*target.shape);
    if (op == "DequantizeLinear") return dequantised(step, shape, depth);
    if (is_plain_arithmetic(op)) return arithmetic(step, op, shape, depth);
    const Tensor from = make(step.inputs[0], depth + 1);
    if (op == "Transpose") {
      std::vector<std::size_t> order;
      for (const std::int64_t axis : step.integers("perm"))
        order.push_back(static_cast<std::size_t>(onnx_axis(axis, from.rank())));
      if (order.empty())
        for (std::size_t i = from.rank(); i-- > 0;) order.push_back(i);
      if (order == std::vector<std::size_t>{1, 0}) return transposed_when_read(from);
      return permuted(from, order);
    }
    if (op == "Cast") return cast(step, from);
    if (op == "Split") return split(step, target.output, from);
    if (op == "Slice" || op == "Gather") {
      const auto [axis, first, count] = *(op == "Slice" ? single_slice(step) : single_gather(step));
      return part_of_axis(from, axis, first, count).reshaped(shape);
    }
    return from.reshaped(shape);
  }

private:
  /// Whether the result has as many elements as an input, so that no element is repeated.
  bool keeps_count(const OnnxStep& step, std::size_t place, int value) const {
    const auto& in = flow_.shape(step.input(place));
    return in && onnx_count(*in) == onnx_count(*flow_.at(value).shape);
  }
  /// Positions [first, first + count) of an axis.
  struct AxisRange {
    std::size_t axis, first, count;
  };

  /// A list of integers: an attribute, or in newer opsets an input.
  std::optional<OnnxDims> integers(const OnnxStep& step, const char* attribute,
                                   std::size_t place) const {
    if (const OnnxAttribute* found = step.find(attribute)) return found->integers;
    OnnxDims result;
    for (const double number : flow_.numbers(step.input(place)))
      result.push_back(static_cast<std::int64_t>(std::clamp(number, -9e18, 9e18)));
    return result.empty() ? std::nullopt : std::optional(result);
  }

  /// The range of a Slice along one axis with step 1.
  std::optional<AxisRange> single_slice(const OnnxStep& step) const {
    const auto starts = integers(step, "starts", 1), ends = integers(step, "ends", 2),
               axes = integers(step, "axes", 3), steps = integers(step, "steps", 4);
    const auto& in = flow_.shape(step.input(0));
    if (!in || !starts || !ends || starts->size() != 1 || ends->size() != 1) return std::nullopt;
    const std::int64_t axis = onnx_axis(axes ? (*axes)[0] : 0, in->size());
    if (axis < 0 || (steps && (*steps)[0] != 1)) return std::nullopt;
    const auto [first, count] =
        onnx_slice((*starts)[0], (*ends)[0], 1, (*in)[static_cast<std::size_t>(axis)]);
    return AxisRange{static_cast<std::size_t>(axis), static_cast<std::size_t>(first),
                     static_cast<std::size_t>(count)};
  }
  /// The range of a Gather of one position.
  std::optional<AxisRange> single_gather(const OnnxStep& step) const {
    const auto& in = flow_.shape(step.input(0));
    const std::vector<double> places = flow_.numbers(step.input(1), 1);
    if (!in || places.size() != 1) return std::nullopt;
    const std::int64_t axis = onnx_axis(step.integer("axis", 0), in->size());
    if (axis < 0) return std::nullopt;
    const std::int64_t at =
        onnx_axis(static_cast<std::int64_t>(places[0]),
                  static_cast<std::size_t>((*in)[static_cast<std::size_t>(axis)]));
    if (at < 0) return std::nullopt;
    return AxisRange{static_cast<std::size_t>(axis), static_cast<std::size_t>(at), 1};
  }

  static Tensor cast(const OnnxStep& step, const Tensor& from) {
    switch (step.integer("to", 1)) {
    case 1:
      return convert(from, DType::f32);
    case 10:
      return convert(from, DType::f16);
    case 11:
      return convert(from, DType::f64);
    case 16:
      return convert(from, DType::bf16);
    default:
      return from;
    }
  }

  Tensor split(const OnnxStep& step, int output, const Tensor& from) const {
    const auto axis = static_cast<std::size_t>(onnx_axis(step.integer("axis", 0), from.rank()));
    std::size_t first = 0;
    for (int i = 0; i < output; ++i)
      if (const auto& other = flow_.shape(step.outputs[static_cast<std::size_t>(i)]))
        first += static_cast<std::size_t>((*other)[axis]);
    const auto& own = flow_.shape(step.outputs[static_cast<std::size_t>(output)]);
    const auto count = static_cast<std::size_t>((*own)[axis]);
    if (first + count > from.shape()[axis])
      fail("{}: the outputs of a Split are longer than its input", where_);
    return part_of_axis(from, axis, first, count);
  }

  /// (x − zero) · scale, with one scale for the whole tensor, for each position of `axis`, or for
  /// each block of positions.
  Tensor dequantised(const OnnxStep& step, const Shape& shape, int depth) const {
    const Tensor x = make(step.inputs[0], depth + 1), scale = make(step.inputs[1], depth + 1);
    const Tensor zero = step.input(2) >= 0 ? make(step.inputs[2], depth + 1) : Tensor();
    const std::int64_t axis = onnx_axis(step.integer("axis", 1), shape.size());
    const std::int64_t block = step.integer("block_size", 0);
    std::size_t inner = 1, along = 1;
    const bool one_scale = scale.count() == 1;
    if (!one_scale) {
      if (axis < 0) fail("{}: {}: no axis {}", where_, shown(step.name), step.integer("axis", 1));
      along = shape[static_cast<std::size_t>(axis)];
      for (auto i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) inner *= shape[i];
    }
    const std::size_t block_length = block > 0 ? static_cast<std::size_t>(block) : 1;
    const std::size_t blocks = (along + block_length - 1) / block_length;
    const std::size_t outer = along * inner == 0 ? 0 : x.count() / (along * inner);
    const std::size_t expected = one_scale ? 1 : block > 0 ? outer * blocks * inner : blocks;
    if (scale.count() != expected || (!zero.empty() && zero.count() != expected))
      fail("{}: {}: {} scales for {} along axis {}", where_, shown(step.name), scale.count(),
           to_string(shape), step.integer("axis", 1));
    Tensor result = Tensor::uninitialised(DType::f32, shape);
    const auto to = result.as_mutable<float>();
    const Tensor scales = convert(scale, DType::f32), numbers = convert(x, DType::f64),
                 zeros = zero.empty() ? Tensor() : convert(zero, DType::f64);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::size_t position = i / inner % along / block_length;
      const std::size_t at = one_scale ? 0
                             : block > 0
                                 ? (i / (along * inner) * blocks + position) * inner + i % inner
                                 : position;
      const double offset = zero.empty() ? 0 : zeros.as<double>()[at];
      to[i] = static_cast<float>(numbers.as<double>()[i] - offset) * scales.as<float>()[at];
    }
    return result;
  }

  Tensor arithmetic(const OnnxStep& step, std::string_view op, const Shape& shape,
                    int depth) const {
    const Tensor a = make(step.inputs[0], depth + 1), b = make(step.inputs[1], depth + 1);
    const DType dtype = a.dtype() == DType::f64 ? DType::f64 : DType::f32;
    Tensor result = Tensor::uninitialised(dtype, shape);
    const Tensor x = convert(a, DType::f64), y = convert(b, DType::f64);
    const OnnxDims dims(shape.begin(), shape.end());
    const auto index_in = [&](const Tensor& in, std::size_t i) {
      if (in.count() == result.count()) return i;
      const OnnxDims own(in.shape().begin(), in.shape().end());
      return static_cast<std::size_t>(
          onnx_flat_of_repeated(own, dims, static_cast<std::int64_t>(i)));
    };
    for (std::size_t i = 0; i < result.count(); ++i) {
      const double u = x.as<double>()[index_in(x, i)], v = y.as<double>()[index_in(y, i)];
      const double number = op == "Add" ? u + v : op == "Sub" ? u - v : op == "Mul" ? u * v : u / v;
      if (dtype == DType::f64)
        result.as_mutable<double>()[i] = number;
      else
        result.as_mutable<float>()[i] = static_cast<float>(number);
    }
    return result;
  }

  const OnnxFlow& flow_;
  const std::string& where_;
};

Tensor OnnxFlow::tensor(int value) const {
  const std::lock_guard hold(reading_);
  visits_ = 1'000'000; // enough for the short lists of slices, gathers and splits
  return OnnxWeights(*this, where_).make(value);
}

bool OnnxFlow::has_tensor(int value) const {
  return is_fixed(value) && OnnxWeights(*this, where_).can_make(value, 0);
}

} // namespace mha::io
