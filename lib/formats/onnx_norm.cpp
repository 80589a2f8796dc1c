// Normalisations: the operator, or its arithmetic as Sub, Pow, ReduceMean, Sqrt, Div and Mul.

#include <mha/formats/onnx_layers.hpp>
#include <mha/system/one_of.hpp>

namespace mha::io {

namespace {

constexpr int most_before = 8;

bool is_op(const OnnxStep* step, std::initializer_list<std::string_view> ops) {
  return step && is_one_of(step->node->op, ops);
}

/// The value before any casts.
int before_casts(const OnnxFlow& flow, int value) {
  for (int i = 0; i < most_before; ++i) {
    const OnnxStep* made = flow.maker(value);
    if (!is_op(made, {"Cast", "Identity"}) || flow.at(flow.resolved(value)).whole) break;
    value = made->input(0);
  }
  return flow.resolved(value);
}

/// The number of a fixed value with one element.
std::optional<double> only_number(const OnnxFlow& flow, int value) {
  const std::vector<double> list = value < 0 ? std::vector<double>{} : flow.numbers(value, 1);
  return list.size() == 1 ? std::optional(list[0]) : std::nullopt;
}

/// Whether a step is the mean of each row, along the last axis and with keepdims.
bool is_mean_of_rows(const OnnxFlow& flow, const OnnxStep* step) {
  if (!is_op(step, {"ReduceMean"}) || step->outputs.empty()) return false;
  const auto &in = flow.shape(step->input(0)), &out = flow.shape(step->outputs[0]);
  if (!in || !out || in->empty() || out->size() != in->size() || out->back() != 1) return false;
  return std::equal(in->begin(), in->end() - 1, out->begin());
}

std::vector<double> numbers_in(const OnnxFlow& flow, int value) {
  constexpr std::size_t most = 1 << 16;
  return value < 0 ? std::vector<double>{} : flow.numbers(value, most);
}

std::optional<OnnxNorm> operator_norm(const OnnxFlow& flow, const OnnxStep& step) {
  OnnxNorm norm;
  const bool layer = is_op(&step, {"LayerNormalization"});
  if (!layer && !is_op(&step, {"SimplifiedLayerNormalization", "RMSNormalization"}))
    return std::nullopt;
  const auto& shape = flow.shape(step.input(0));
  const std::int64_t axis = step.integer("axis", -1);
  if (!shape || shape->empty() ||
      (axis != -1 && axis != static_cast<std::int64_t>(shape->size()) - 1))
    return std::nullopt;
  norm.x = step.inputs[0], norm.rms = !layer;
  norm.eps = step.number("epsilon").value_or(1e-5);
  norm.width = static_cast<std::size_t>(shape->back());
  norm.weight = numbers_in(flow, step.input(1));
  norm.bias = numbers_in(flow, layer ? step.input(2) : -1);
  if (norm.weight.size() != norm.width || (!norm.bias.empty() && norm.bias.size() != norm.width))
    return std::nullopt;
  return norm;
}

/// The x and ε of mean(x²) + ε along each row.
struct MeanSquare {
  int x = -1;
  double eps = 0;
};

std::optional<MeanSquare> mean_square(const OnnxFlow& flow, int value) {
  MeanSquare found;
  const OnnxStep* made = flow.maker(before_casts(flow, value));
  if (is_op(made, {"Add"})) {
    const bool second = flow.is_fixed(made->input(1));
    const auto eps = only_number(flow, made->input(second ? 1 : 0));
    if (!eps) return std::nullopt;
    found.eps = *eps, made = flow.maker(before_casts(flow, made->input(second ? 0 : 1)));
  }
  if (!is_mean_of_rows(flow, made)) return std::nullopt;
  const OnnxStep* square = flow.maker(before_casts(flow, made->input(0)));
  if (!is_op(square, {"Pow", "Mul"})) return std::nullopt;
  found.x = before_casts(flow, square->input(0));
  const bool squares = square->is("Pow") ? only_number(flow, square->input(1)) == 2
                                         : before_casts(flow, square->input(1)) == found.x;
  return squares ? std::optional(found) : std::nullopt;
}

/// The same for its root, Sqrt or (…)^0.5.
std::optional<MeanSquare> root_of_mean(const OnnxFlow& flow, int value) {
  const OnnxStep* made = flow.maker(before_casts(flow, value));
  const bool root =
      is_op(made, {"Sqrt"}) || (is_op(made, {"Pow"}) && only_number(flow, made->input(1)) == 0.5);
  return root ? mean_square(flow, made->input(0)) : std::nullopt;
}

/// The same for the inverse of its root.
std::optional<MeanSquare> inverse_root_of_mean(const OnnxFlow& flow, int value) {
  const OnnxStep* made = flow.maker(before_casts(flow, value));
  if (is_op(made, {"Reciprocal"})) return root_of_mean(flow, made->input(0));
  if (is_op(made, {"Div"}) && only_number(flow, made->input(0)) == 1)
    return root_of_mean(flow, made->input(1));
  if (is_op(made, {"Pow"}) && only_number(flow, made->input(1)) == -0.5)
    return mean_square(flow, made->input(0));
  return std::nullopt;
}

/// The x of x − mean(x).
std::optional<int> centred(const OnnxFlow& flow, int value) {
  const OnnxStep* made = flow.maker(value);
  if (!is_op(made, {"Sub"})) return std::nullopt;
  const OnnxStep* mean = flow.maker(before_casts(flow, made->input(1)));
  const int x = before_casts(flow, made->input(0));
  if (!is_mean_of_rows(flow, mean) || before_casts(flow, mean->input(0)) != x) return std::nullopt;
  return x;
}

std::optional<OnnxNorm> spelt_out_norm(const OnnxFlow& flow, const OnnxStep& step) {
  int top = -1;
  std::optional<MeanSquare> root;
  if (is_op(&step, {"Div"})) {
    top = step.input(0), root = root_of_mean(flow, step.input(1));
  } else if (is_op(&step, {"Mul"})) {
    for (const std::size_t place : {std::size_t{1}, std::size_t{0}})
      if (!root) top = step.input(1 - place), root = inverse_root_of_mean(flow, step.input(place));
  }
  if (!root) return std::nullopt;
  top = before_casts(flow, top);
  OnnxNorm norm;
  norm.eps = root->eps;
  const std::optional<int> x = centred(flow, top);
  norm.rms = !x;
  norm.x = x.value_or(top);
  const bool same = root->x == top || (x && centred(flow, root->x) == x);
  const auto& shape = flow.shape(norm.x);
  if (!same || !shape || shape->empty()) return std::nullopt;
  norm.width = static_cast<std::size_t>(shape->back());
  return norm;
}

} // namespace

std::optional<OnnxNorm> onnx_norm(const OnnxFlow& flow, int value) {
  const OnnxStep* step = flow.maker(value);
  if (!step || flow.at(flow.resolved(value)).output != 0) return std::nullopt;
  if (auto norm = operator_norm(flow, *step)) return norm;
  return spelt_out_norm(flow, *step);
}

} // namespace mha::io
