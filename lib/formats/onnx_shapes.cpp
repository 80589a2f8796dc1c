#include <mha/formats/onnx_shapes.hpp>

#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>

namespace mha::io {

namespace {

constexpr std::size_t most_short = 64; ///< the most numbers that are kept with a value

/// The length of a named axis: "batch", "sequence_length", "past + sequence".
std::int64_t named_length(std::string_view named, std::size_t axis, const OnnxFlow& flow) {
  const std::int64_t length = flow.length;
  const std::string name = lowered(named);
  constexpr std::size_t longest = 200; // limits the recursion for sums
  if (const std::size_t plus = name.find('+'); plus != std::string::npos && name.size() < longest)
    return named_length(std::string_view(name).substr(0, plus), 1, flow) +
           named_length(std::string_view(name).substr(plus + 1), 1, flow);
  const std::size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return axis == 0 ? flow.texts : length;
  std::string_view rest = std::string_view(name).substr(first);
  if (const auto number = take_number<std::int64_t>(rest))
    return std::clamp<std::int64_t>(*number, 0, 4096);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("total")) return length;
  if (has("past")) return 0;
  if (has("batch")) return flow.texts;
  if (has("height") || has("width")) return 224;
  if (has("channel")) return 3;
  return length;
}

} // namespace

std::int64_t onnx_axis(std::int64_t axis, std::size_t rank) {
  const auto axes = static_cast<std::int64_t>(rank);
  if (axis < 0) axis += axes;
  return axis < 0 || axis >= axes ? -1 : axis;
}

class OnnxShapes {
public:
  explicit OnnxShapes(OnnxFlow& flow) : flow_(flow) {}

  void run() {
    for (OnnxValue& value : flow_.values) begin(value);
    for (std::size_t i = 0; i < flow_.constants.size(); ++i) {
      const OnnxFlow::Constant& constant = flow_.constants[i];
      value(constant.value).shape =
          OnnxDims(constant.array.shape.begin(), constant.array.shape.end());
      value(constant.value).whole = !is_floating(constant.array.dtype);
      keep_numbers(constant.value);
    }
    for (const OnnxStep& step : flow_.steps) infer(step);
  }

private:
  OnnxValue& value(int id) { return flow_.values[static_cast<std::size_t>(id)]; }

  void begin(OnnxValue& value) {
    if (!value.is_input || value.alias >= 0) return;
    const std::string name = lowered(value.name);
    const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const std::int64_t type = value.info ? value.info->type : 0;
    value.whole = type != 0 && type != 1 && type != 10 && type != 11 && type != 16;
    value.fixed = has("mask") || (has("position") && (type == 0 || value.whole)) ||
                  name == "use_cache_branch";
    if (value.info && value.info->has_shape) value.shape = dims_of(*value.info);
  }

  OnnxDims dims_of(const OnnxValueInfo& info) const {
    OnnxDims dims;
    for (std::size_t i = 0; i < info.dims.size(); ++i) {
      const OnnxDim& dim = info.dims[i];
      if (dim.length >= 0 && dim.name.empty())
        dims.push_back(dim.length);
      else if (!dim.name.empty())
        dims.push_back(named_length(dim.name, i, flow_));
      else
        dims.push_back(i == 0 ? flow_.texts : flow_.length);
    }
    return dims;
  }

  /// The shape that the file declares for a value without a rule, if it has no named lengths other
  /// than "batch".
  MaybeOnnxDims declared_shape_of(const OnnxValue& value) const {
    if (!value.info || !value.info->has_shape) return std::nullopt;
    for (const OnnxDim& dim : value.info->dims)
      if (dim.length < 0 && dim.name.find("batch") == std::string_view::npos) return std::nullopt;
    return dims_of(*value.info);
  }

  void keep_numbers(int id) {
    OnnxValue& kept = value(id);
    if (!kept.fixed || !kept.shape) return;
    const std::int64_t count = onnx_count(*kept.shape);
    if (count < 0 || count > static_cast<std::int64_t>(most_short)) return;
    kept.numbers = flow_.numbers(id, most_short);
  }

  void infer(const OnnxStep& step) {
    if (step.is("If") && step.node->domain.empty()) return choose(step);
    const bool fixed =
        (!step.inputs.empty() || is_one_of(step.node->op, {"Range", "ConstantOfShape"})) &&
        std::ranges::all_of(step.inputs, [&](int id) { return id < 0 || flow_.is_fixed(id); });
    const bool of_shape =
        (step.is("Shape") || step.is("Size")) && flow_.shape(step.input(0)).has_value();
    const std::vector<MaybeOnnxDims> shapes = onnx_shapes_of(flow_, step);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const int id = step.outputs[i];
      if (id < 0 || value(id).constant >= 0 || value(id).alias >= 0) continue;
      // If two steps have the same output, the first one counts.
      if (value(id).step != static_cast<int>(&step - flow_.steps.data()) ||
          value(id).output != static_cast<int>(i))
        continue;
      value(id).fixed = fixed || of_shape;
      value(id).whole = is_whole(step);
      if (i < shapes.size()) value(id).shape = shapes[i];
      if (value(id).shape && onnx_count(*value(id).shape) < 0) value(id).shape.reset();
      if (!value(id).shape) value(id).shape = declared_shape_of(value(id));
      keep_numbers(id);
    }
  }

  /// Whether a step's outputs are integers: by its declared type, or else like its first input.
  bool is_whole(const OnnxStep& step) const {
    const auto floating = [](std::int64_t type) {
      return type == 1 || type == 10 || type == 11 || type == 16;
    };
    if (step.is("Shape") || step.is("Size")) return true;
    if (step.is("Cast")) return !floating(step.integer("to", 1));
    if (step.is("ConstantOfShape")) {
      const OnnxAttribute* made_of = step.find("value");
      return made_of && made_of->tensor && !floating(made_of->tensor->type);
    }
    const int first = step.input(step.is("Where") ? 1 : 0);
    return first >= 0 && flow_.at(flow_.resolved(first)).whole;
  }

  /// Makes the outputs of an If aliases of the chosen branch; if the condition is not known, of the
  /// first branch whose output has a shape.
  void choose(const OnnxStep& step) {
    const std::optional<double> condition =
        flow_.is_fixed(step.input(0)) ? flow_.number(step.input(0)) : std::nullopt;
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const int id = step.outputs[i];
      const int then = i < step.then_outputs.size() ? step.then_outputs[i] : -1,
                other = i < step.else_outputs.size() ? step.else_outputs[i] : -1;
      int chosen = condition && *condition == 0 ? other : then;
      if (!condition && !flow_.shape(then)) chosen = flow_.shape(other) ? other : then;
      if (id >= 0 && chosen >= 0 && chosen < id) value(id).alias = chosen;
    }
  }

  OnnxFlow& flow_;
};

void infer_onnx_shapes(OnnxFlow& flow) {
  OnnxShapes(flow).run();
}

std::pair<std::int64_t, std::int64_t> onnx_slice(std::int64_t start, std::int64_t end,
                                                 std::int64_t step, std::int64_t length) {
  const auto from_front = [&](std::int64_t at) {
    return at < 0 && at > INT64_MIN + length ? at + length : at;
  };
  const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? length : length - 1;
  start = std::clamp<std::int64_t>(from_front(start), step > 0 ? 0 : 0,
                                   std::max<std::int64_t>(most, 0));
  end = end < -length ? least
                      : std::clamp<std::int64_t>(from_front(end), least, std::max(most, least));
  if (step == INT64_MIN) ++step;
  const std::int64_t span = step > 0 ? end - start : start - end, stride = std::abs(step);
  return {start, span > 0 ? (span - 1) / stride + 1 : 0};
}

} // namespace mha::io
