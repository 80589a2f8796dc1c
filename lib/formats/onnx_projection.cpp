#include <mha/formats/onnx_projection.hpp>

#include <mha/system/one_of.hpp>

#include <algorithm>

namespace mha::io {

namespace {

/// A Conv with a kernel of size 1 as a sum over channels.
std::optional<OnnxContraction> pointwise(const OnnxFlow& flow, const OnnxStep& step) {
  const auto &in = flow.shape(step.input(0)), &kernel = flow.shape(step.input(1));
  if (!step.is("Conv") || !in || !kernel || in->size() != kernel->size() || in->size() < 3 ||
      in->size() > 5 || step.integer("group", 1) != 1)
    return std::nullopt;
  const auto all_are = [](const OnnxDims& list, std::int64_t value) {
    return std::ranges::all_of(list, [&](std::int64_t one) { return one == value; });
  };
  if (!all_are(OnnxDims(kernel->begin() + 2, kernel->end()), 1) ||
      !all_are(step.integers("pads"), 0) || !all_are(step.integers("strides"), 1) ||
      (*in)[1] != (*kernel)[1])
    return std::nullopt;
  const std::string space = std::string("xyz").substr(0, in->size() - 2);
  const std::string ones = std::string("XYZ").substr(0, in->size() - 2);
  OnnxContraction sum{step.inputs[0], step.inputs[1], "nk" + space, "jk" + ones, "nj" + space, {}};
  for (std::size_t i = 0; i < in->size(); ++i)
    sum.lengths[sum.a_axes[i]] = (*in)[i], sum.lengths[sum.b_axes[i]] = (*kernel)[i];
  return sum;
}

/// Whether a fixed value that is added to the product has one number per column.
bool is_bias(const OnnxFlow& flow, const OnnxProjection& to, int value) {
  const auto &out = flow.shape(to.product), &own = flow.shape(value);
  if (!flow.has_tensor(value) || !out || !own || own->size() > out->size() ||
      onnx_count(*own) != static_cast<std::int64_t>(to.out_width))
    return false;
  const std::size_t before = out->size() - own->size();
  for (std::size_t i = 0; i < own->size(); ++i) {
    const bool column = to.weight_axes.find(to.out_axes[before + i]) != std::string::npos;
    if ((*own)[i] != 1 && (!column || (*own)[i] != (*out)[before + i])) return false;
  }
  return true;
}

/// The Add step that adds a bias to a projection's output, or -1.
int bias_step(const OnnxFlow& flow, const OnnxProjection& of) {
  int found = -1;
  for (const int consumer : flow.at(flow.resolved(of.product)).consumers) {
    const OnnxStep& step = flow.steps[static_cast<std::size_t>(consumer)];
    if (step.is("Shape")) continue;
    if (found >= 0 && found != consumer) return -1;
    found = consumer;
  }
  if (found < 0 || !flow.steps[static_cast<std::size_t>(found)].is("Add")) return -1;
  return found;
}

} // namespace

OnnxProjections::OnnxProjections(OnnxFlow& flow) {
  for (std::size_t i = 0; i < flow.steps.size(); ++i) {
    const OnnxStep& step = flow.steps[i];
    if (step.is("Attention") && step.node->domain == "com.microsoft") {
      add_operator(flow, static_cast<int>(i));
      continue;
    }
    auto sum = onnx_contraction(flow, step);
    if (!sum) sum = pointwise(flow, step);
    if (!sum || step.outputs.empty() || step.outputs[0] < 0) continue;
    const auto& made = flow.shape(step.outputs[0]);
    if (!made || made->size() != sum->out_axes.size()) continue;
    const bool left = flow.is_fixed(sum->a), right = flow.is_fixed(sum->b);
    if (left == right || !flow.has_tensor(left ? sum->a : sum->b)) continue;
    OnnxProjection one;
    one.step = static_cast<int>(i);
    one.x = left ? sum->b : sum->a, one.weight = left ? sum->a : sum->b;
    one.x_axes = left ? sum->b_axes : sum->a_axes;
    one.weight_axes = left ? sum->a_axes : sum->b_axes;
    one.product = one.out = step.outputs[0], one.out_axes = sum->out_axes;
    std::int64_t in = 1, out = 1;
    bool apart = true; // each axis of the weight is either summed over or its own
    for (const char letter : one.weight_axes) {
      const bool summed = !sum->has(one.out_axes, letter), of_x = sum->has(one.x_axes, letter);
      if (sum->lengths[letter] != 1) apart &= summed == of_x;
      (summed ? in : out) *= sum->lengths[letter];
    }
    for (const char letter : one.x_axes) // and no axis of x is summed alone
      apart &= sum->lengths[letter] == 1 || sum->has(one.out_axes, letter) ||
               sum->has(one.weight_axes, letter);
    if (!apart || in < 2 || out < 2) continue;
    one.in_width = static_cast<std::size_t>(in), one.out_width = static_cast<std::size_t>(out);
    one.plain = step.number("alpha").value_or(1) == 1 && step.number("beta").value_or(1) == 1;
    if ((step.is("Gemm") || step.is("Conv")) && step.input(2) >= 0) {
      const int bias = step.inputs[2];
      const auto& axes = flow.shape(bias);
      if (flow.has_tensor(bias) && axes && onnx_count(*axes) == out && axes->back() == out)
        one.bias = bias;
      else
        one.plain = false;
    }
    add(flow, std::move(one));
  }
}

void OnnxProjections::add(OnnxFlow& flow, OnnxProjection one) {
  const auto stop_at = [&](int value) {
    by_output_[flow.resolved(value)] = all_.size();
    flow.stops[static_cast<std::size_t>(flow.resolved(value))] = true;
  };
  stop_at(one.product);
  if (const int added = one.bias < 0 ? bias_step(flow, one) : -1; added >= 0) {
    const OnnxStep& sum = flow.steps[static_cast<std::size_t>(added)];
    const bool second = flow.resolved(sum.input(0)) == flow.resolved(one.product);
    const int other = sum.input(second ? 1 : 0);
    if (is_bias(flow, one, other) && !sum.outputs.empty() && sum.outputs[0] >= 0) {
      one.bias = other, one.out = sum.outputs[0];
      stop_at(one.out);
    }
  }
  by_step_[one.step] = all_.size();
  all_.push_back(std::move(one));
}

/// com.microsoft's Attention has its own projection, (d_model, queries + keys + values).
void OnnxProjections::add_operator(OnnxFlow& flow, int at) {
  const OnnxStep& step = flow.steps[static_cast<std::size_t>(at)];
  const auto &x = flow.shape(step.input(0)), &weight = flow.shape(step.input(1));
  if (!weight || weight->size() != 2 || !flow.has_tensor(step.input(1))) return;
  OnnxDims in = x && x->size() == 3 ? *x : OnnxDims{1, flow.length, (*weight)[0]};
  if (in[2] != (*weight)[0] || in[2] < 1 || (*weight)[1] < 1) return;
  OnnxValue product;
  product.step = at;
  product.shape = OnnxDims{in[0], in[1], (*weight)[1]};
  OnnxProjection one;
  one.step = at, one.x = step.inputs[0], one.weight = step.inputs[1];
  for (const auto& [axes, letters] :
       {std::pair(&one.x_axes, "nik"), {&one.weight_axes, "kj"}, {&one.out_axes, "nij"}})
    axes->assign(letters);
  one.in_width = static_cast<std::size_t>(in[2]);
  one.out_width = static_cast<std::size_t>((*weight)[1]);
  if (const int bias = step.input(2); bias >= 0 && flow.has_tensor(bias) && flow.shape(bias) &&
                                      onnx_count(*flow.shape(bias)) == (*weight)[1])
    one.bias = bias;
  one.product = one.out = static_cast<int>(flow.values.size());
  flow.values.push_back(std::move(product));
  flow.stops.push_back(true);
  by_output_[one.out] = all_.size(), by_step_[at] = all_.size();
  all_.push_back(std::move(one));
}

const OnnxProjection* OnnxProjections::of(int value) const {
  const auto found = by_output_.find(value);
  return found == by_output_.end() ? nullptr : &all_[found->second];
}

const OnnxProjection* OnnxProjections::of_step(int step) const {
  const auto found = by_step_.find(step);
  return found == by_step_.end() ? nullptr : &all_[found->second];
}

std::pair<std::int64_t, std::int64_t> OnnxProjection::place(const OnnxFlow& flow,
                                                            std::int64_t flat) const {
  const OnnxDims& shape = *flow.shape(product);
  const OnnxPlaces places = onnx_places(shape, flat);
  std::int64_t row = 0, column = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::int64_t& index = weight_axes.find(out_axes[i]) != std::string::npos ? column : row;
    index = index * shape[i] + places[i];
  }
  return {row, column};
}

std::int64_t OnnxProjection::input_at(const OnnxFlow& flow, std::int64_t column,
                                      std::int64_t row) const {
  const OnnxDims &shape = *flow.shape(x), &out_shape = *flow.shape(product);
  OnnxPlaces places(shape.size(), 0);
  for (std::size_t i = shape.size(); i-- > 0;)
    if (out_axes.find(x_axes[i]) == std::string::npos && shape[i] > 0)
      places[i] = column % shape[i], column /= shape[i];
  for (std::size_t i = out_axes.size(); i-- > 0;) {
    if (weight_axes.find(out_axes[i]) != std::string::npos || out_shape[i] < 1) continue;
    if (const std::size_t at = x_axes.find(out_axes[i]); at != std::string::npos)
      places[at] = row % out_shape[i];
    row /= out_shape[i];
  }
  return onnx_flat(shape, places);
}

std::int64_t OnnxProjection::rows(const OnnxFlow& flow) const {
  const OnnxDims& shape = *flow.shape(product);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < out_axes.size(); ++i)
    if (weight_axes.find(out_axes[i]) == std::string::npos) count *= shape[i];
  return count;
}

DType onnx_weight_dtype(const OnnxFlow& flow, int value) {
  for (int steps = 0; steps < 64; ++steps) {
    value = flow.resolved(value);
    if (value < 0) break;
    if (const int constant = flow.at(value).constant; constant >= 0)
      return flow.constants[static_cast<std::size_t>(constant)].array.dtype;
    const OnnxStep* step = flow.maker(value);
    if (!step || step->is("DequantizeLinear")) break;
    if (step->is("Cast")) {
      const std::int64_t to = step->integer("to", 1);
      return to == 11 ? DType::f64 : to == 10 ? DType::f16 : to == 16 ? DType::bf16 : DType::f32;
    }
    const bool arithmetic =
        step->is("Add") || step->is("Sub") || step->is("Mul") || step->is("Div");
    if (arithmetic) {
      int from = step->input(0);
      if (flow.shape(from) && flow.shape(value) &&
          onnx_count(*flow.shape(from)) != onnx_count(*flow.shape(value)))
        from = step->input(1);
      return onnx_weight_dtype(flow, from) == DType::f64 ? DType::f64 : DType::f32;
    }
    value = step->input(0);
  }
  return DType::f32;
}

DType OnnxProjection::dtype(const OnnxFlow& flow) const {
  return onnx_weight_dtype(flow, weight);
}

Tensor OnnxProjection::matrix(const OnnxFlow& flow) const {
  const Tensor stored = flow.tensor(weight);
  // First the summed axes in the order of x, then the columns in the order of the output.
  std::vector<std::size_t> order;
  const auto add = [&](const std::string& axes, bool summed) {
    for (const char letter : axes)
      if (const std::size_t axis = weight_axes.find(letter);
          axis != std::string::npos && (out_axes.find(letter) == std::string::npos) == summed)
        add_once(order, axis);
  };
  add(x_axes, true), add(weight_axes, true), add(out_axes, false), add(weight_axes, false);
  const Shape flat{in_width, out_width};
  if (std::ranges::is_sorted(order)) return stored.reshaped(flat);
  if (stored.rank() == 2) return transposed_when_read(stored);
  return permuted(stored, order).reshaped(flat);
}

} // namespace mha::io
