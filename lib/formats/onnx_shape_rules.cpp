// Computes the output shapes of ONNX operators from their input shapes. Some operators also need
// the values of constant integer inputs, such as the target of Reshape or the bounds of Slice.

#include <mha/formats/onnx_shapes.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace mha::io {

MaybeOnnxDims OnnxShapeRules::first_input(const OnnxStep& step) const {
  return shape(step, 0);
}

MaybeOnnxDims OnnxShapeRules::scalar(const OnnxStep& /*step*/) const {
  return OnnxDims{};
}

MaybeOnnxDims OnnxShapeRules::from_input_numbers(const OnnxStep& step) const {
  return integers(step, 0);
}

MaybeOnnxDims OnnxShapeRules::expand(const OnnxStep& step) const {
  const MaybeOnnxDims target = integers(step, 1);
  return target ? broadcast(shape(step, 0), target) : std::nullopt;
}

MaybeOnnxDims OnnxShapeRules::broadcast_inputs(const OnnxStep& step) const {
  MaybeOnnxDims result = shape(step, 0);
  for (std::size_t i = 1; i < step.inputs.size(); ++i) result = broadcast(result, shape(step, i));
  return result;
}

MaybeOnnxDims OnnxShapeRules::rank_of_input(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0);
  if (!in) return std::nullopt;
  const auto [first, end] = shape_range(step, in->size());
  return OnnxDims{std::max<std::int64_t>(end - first, 0)};
}

/// The axes [first, end) whose lengths the operator Shape returns, for an input with `rank` axes.
/// They are its attributes start and end, of which negative values count back from the rank.
std::pair<std::int64_t, std::int64_t> OnnxShapeRules::shape_range(const OnnxStep& step,
                                                                  std::size_t rank) {
  const auto axis_count = static_cast<std::int64_t>(rank);
  const auto from_front = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + axis_count : axis, 0, axis_count);
  };
  return {from_front(step.integer("start", 0)), from_front(step.integer("end", axis_count))};
}

MaybeOnnxDims OnnxShapeRules::reshape(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0);
  MaybeOnnxDims target = integers(step, 1);
  if (const OnnxAttribute* attribute = step.find("shape")) target = attribute->integers; // opset 1
  if (!target) return std::nullopt;
  std::int64_t target_count = 1;
  int inferred_axis = -1;
  for (std::size_t i = 0; i < target->size(); ++i) {
    std::int64_t& length = (*target)[i];
    if (length == 0 && step.integer("allowzero", 0) == 0) {
      if (!in || i >= in->size()) return std::nullopt;
      length = (*in)[i];
    }
    if (length == -1 && inferred_axis < 0)
      inferred_axis = static_cast<int>(i);
    else if (length < 0 || __builtin_mul_overflow(target_count, length, &target_count))
      return std::nullopt;
  }
  if (inferred_axis < 0 && !in) return target;
  const std::int64_t input_count = in ? onnx_count(*in) : -1;
  if (input_count < 0) return std::nullopt;
  if (inferred_axis >= 0) {
    if (target_count == 0 || input_count % target_count != 0) return std::nullopt;
    (*target)[static_cast<std::size_t>(inferred_axis)] = input_count / target_count;
  } else if (target_count != input_count) {
    note_exported_length(*target, target_count, input_count);
    return std::nullopt;
  }
  return target;
}

/// Shapes are computed for a short example text of flow_.length tokens, but a model may have been
/// exported for another, fixed length. A Reshape whose target does not have as many elements as its
/// input reveals that length: it makes the two counts equal if it replaces flow_.length in the
/// target. If it is an integer, it is stored in flow_.required_length.
void OnnxShapeRules::note_exported_length(const OnnxDims& target, std::int64_t target_count,
                                          std::int64_t input_count) const {
  std::int64_t other_lengths_product = target_count;
  int occurrences = 0;
  for (const std::int64_t length : target)
    if (length == flow_.length) other_lengths_product /= length, ++occurrences;
  if (flow_.required_length != 0 || occurrences == 0 || other_lengths_product == 0 ||
      input_count % other_lengths_product != 0)
    return;
  const double exact_length =
      std::pow(static_cast<double>(input_count / other_lengths_product), 1.0 / occurrences);
  const auto length = static_cast<std::int64_t>(std::llround(exact_length));
  if (length > 1 &&
      std::llround(std::pow(exact_length, occurrences)) == input_count / other_lengths_product &&
      std::abs(exact_length - static_cast<double>(length)) < 1e-9)
    flow_.required_length = length;
}

MaybeOnnxDims OnnxShapeRules::transpose(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0);
  if (!in) return std::nullopt;
  const OnnxDims permutation = step.integers("perm");
  if (permutation.empty()) return OnnxDims(in->rbegin(), in->rend());
  OnnxDims result;
  for (const std::int64_t axis : permutation) {
    const std::int64_t source_axis = onnx_axis(axis, in->size());
    if (source_axis < 0) return std::nullopt;
    result.push_back((*in)[static_cast<std::size_t>(source_axis)]);
  }
  return permutation.size() == in->size() ? MaybeOnnxDims(result) : std::nullopt;
}

MaybeOnnxDims OnnxShapeRules::slice(const OnnxStep& step) const {
  MaybeOnnxDims in = shape(step, 0);
  const MaybeOnnxDims starts = attribute_or_input(step, "starts", 1),
                      ends = attribute_or_input(step, "ends", 2);
  if (!in || !starts || !ends || starts->size() != ends->size()) return std::nullopt;
  MaybeOnnxDims axes = attribute_or_input(step, "axes", 3), steps = integers(step, 4);
  if (!axes) {
    if (step.input(3) >= 0) return std::nullopt; // the axes are computed, not constant
    axes = OnnxDims(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!steps) {
    if (step.input(4) >= 0) return std::nullopt;
    steps = OnnxDims(starts->size(), 1);
  }
  if (axes->size() != starts->size() || steps->size() != starts->size()) return std::nullopt;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t axis = onnx_axis((*axes)[i], in->size());
    if (axis < 0 || (*steps)[i] == 0) return std::nullopt;
    std::int64_t& length = (*in)[static_cast<std::size_t>(axis)];
    length = onnx_slice((*starts)[i], (*ends)[i], (*steps)[i], length).second;
  }
  return in;
}

MaybeOnnxDims OnnxShapeRules::gather(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0), indices = shape(step, 1);
  if (!in || !indices) return std::nullopt;
  const std::int64_t axis = onnx_axis(step.integer("axis", 0), in->size());
  if (axis < 0) return std::nullopt;
  OnnxDims result(in->begin(), in->begin() + axis);
  result.insert(result.end(), indices->begin(), indices->end());
  result.insert(result.end(), in->begin() + axis + 1, in->end());
  return result;
}

MaybeOnnxDims OnnxShapeRules::concat(const OnnxStep& step) const {
  MaybeOnnxDims result = shape(step, 0);
  if (!result) return std::nullopt;
  const std::int64_t axis = onnx_axis(step.integer("axis", 0), result->size());
  if (axis < 0) return std::nullopt;
  for (std::size_t i = 1; i < step.inputs.size(); ++i) {
    const MaybeOnnxDims next = shape(step, i);
    if (!next || next->size() != result->size() ||
        __builtin_add_overflow((*result)[static_cast<std::size_t>(axis)],
                               (*next)[static_cast<std::size_t>(axis)],
                               &(*result)[static_cast<std::size_t>(axis)]))
      return std::nullopt;
  }
  return result;
}

/// For each of `rank` axes, whether `axes` contains it. std::nullopt if `axes` contains an axis
/// that is outside the rank.
std::optional<std::vector<bool>> OnnxShapeRules::marked_axes(const OnnxDims& axes,
                                                             std::size_t rank) {
  std::vector<bool> marked(rank, false);
  for (const std::int64_t listed_axis : axes) {
    const std::int64_t axis = onnx_axis(listed_axis, rank);
    if (axis < 0) return std::nullopt;
    marked[static_cast<std::size_t>(axis)] = true;
  }
  return marked;
}

MaybeOnnxDims OnnxShapeRules::squeeze(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0), axes = attribute_or_input(step, "axes", 1);
  if (!in || (!axes && step.input(1) >= 0)) return std::nullopt;
  const auto removed = marked_axes(axes.value_or(OnnxDims{}), in->size());
  if (!removed) return std::nullopt;
  OnnxDims result;
  for (std::size_t i = 0; i < in->size(); ++i)
    if (axes ? !(*removed)[i] : (*in)[i] != 1) result.push_back((*in)[i]);
  return result;
}

MaybeOnnxDims OnnxShapeRules::unsqueeze(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0), axes = attribute_or_input(step, "axes", 1);
  if (!in || !axes) return std::nullopt;
  const auto added = marked_axes(*axes, in->size() + axes->size());
  if (!added) return std::nullopt;
  OnnxDims result;
  std::size_t source_axis = 0;
  for (const bool is_added : *added)
    if (is_added)
      result.push_back(1);
    else if (source_axis < in->size()) // false only if `axes` repeats an axis
      result.push_back((*in)[source_axis++]);
  return result;
}

MaybeOnnxDims OnnxShapeRules::flatten(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0);
  if (!in) return std::nullopt;
  std::int64_t axis = step.integer("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(in->size());
  if (axis < 0 || axis > static_cast<std::int64_t>(in->size())) return std::nullopt;
  return OnnxDims{onnx_count(OnnxDims(in->begin(), in->begin() + axis)),
                  onnx_count(OnnxDims(in->begin() + axis, in->end()))};
}

MaybeOnnxDims OnnxShapeRules::tile(const OnnxStep& step) const {
  MaybeOnnxDims in = shape(step, 0);
  const MaybeOnnxDims repeats = integers(step, 1);
  if (!in || !repeats || repeats->size() != in->size()) return std::nullopt;
  for (std::size_t i = 0; i < in->size(); ++i)
    if (__builtin_mul_overflow((*in)[i], (*repeats)[i], &(*in)[i])) return std::nullopt;
  return in;
}

MaybeOnnxDims OnnxShapeRules::range(const OnnxStep& step) const {
  std::array<double, 3> start_limit_delta{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = flow_.is_fixed(step.input(i)) ? flow_.number(step.input(i)) : std::nullopt;
    if (!number) return std::nullopt;
    start_limit_delta[i] = *number;
  }
  const double count =
      std::ceil((start_limit_delta[1] - start_limit_delta[0]) / start_limit_delta[2]);
  if (!(std::abs(count) < 1e9)) return std::nullopt; // too long, or delta is 0
  return OnnxDims{std::max<std::int64_t>(static_cast<std::int64_t>(count), 0)};
}

MaybeOnnxDims OnnxShapeRules::reduce(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0);
  if (!in) return std::nullopt;
  MaybeOnnxDims axes = attribute_or_input(step, "axes", 1);
  if (!axes && step.input(1) >= 0) return std::nullopt;
  const bool keeps_axes = step.integer("keepdims", 1) != 0;
  const bool reduces_all = !axes || axes->empty();
  const auto reduced = marked_axes(axes.value_or(OnnxDims{}), in->size());
  if (!reduced) return std::nullopt;
  OnnxDims result;
  for (std::size_t i = 0; i < in->size(); ++i)
    if (!reduces_all && !(*reduced)[i])
      result.push_back((*in)[i]);
    else if (keeps_axes)
      result.push_back(1);
  return result;
}

std::vector<MaybeOnnxDims> OnnxShapeRules::split(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0);
  if (!in) return {};
  const std::int64_t axis = onnx_axis(step.integer("axis", 0), in->size());
  if (axis < 0) return {};
  const std::size_t part_count = step.outputs.size();
  MaybeOnnxDims lengths = attribute_or_input(step, "split", 1);
  const std::int64_t axis_length = (*in)[static_cast<std::size_t>(axis)];
  if (!lengths) {
    if (step.input(1) >= 0 || part_count == 0) return {};
    const auto count = static_cast<std::int64_t>(part_count);
    const std::int64_t part_length = (axis_length + count - 1) / count;
    lengths = OnnxDims(part_count, part_length);
    lengths->back() = axis_length - part_length * (count - 1);
  }
  std::vector<MaybeOnnxDims> shapes;
  for (std::size_t i = 0; i < part_count && i < lengths->size(); ++i) {
    shapes.emplace_back(in);
    (*shapes.back())[static_cast<std::size_t>(axis)] = (*lengths)[i];
  }
  return shapes;
}

std::vector<MaybeOnnxDims> onnx_shapes_of(OnnxFlow& flow, const OnnxStep& step) {
  const OnnxShapeRules rules(flow);
  if (step.node->op == "Split") return rules.split(step);
  return {step.rule->shape ? (rules.*step.rule->shape)(step) : std::nullopt};
}

} // namespace mha::io
