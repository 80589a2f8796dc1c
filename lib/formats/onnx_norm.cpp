// Normalisations: the operator, or Sub, Pow, ReduceMean, Sqrt, Div and Mul.

#include <mha/formats/onnx_layers.hpp>
#include <mha/system/one_of.hpp>

namespace mha::io {

namespace {

constexpr int most_before = 8;

bool is_op(const OnnxStep* step, std::initializer_list<std::string_view> ops) {
  return step && is_one_of(step->node->op, ops);
}

/// The value before conversions.
int before_casts(const OnnxFlow& flow, int value) {
  for (int i = 0; i < most_before; ++i) {
    const OnnxStep* made = flow.maker(value);
    if (!is_op(made, {"Cast", "Identity"})) break;
    value = made->input(0);
  }
  return flow.resolved(value);
}

std::vector<double> list_of(const OnnxFlow& flow, int value) {
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
  norm.weight = list_of(flow, step.input(1));
  norm.bias = list_of(flow, layer ? step.input(2) : -1);
  if (norm.weight.size() != norm.width || (!norm.bias.empty() && norm.bias.size() != norm.width))
    return std::nullopt;
  return norm;
}

/// The value whose squares' mean a reciprocal or a root was made of, and what was added to it.
struct RootOfMean {
  int squared = -1;
  double eps = 0;
};

/// Follows Sqrt(ReduceMean(x²) + ε) back to x.
std::optional<RootOfMean> root_of_mean(const OnnxFlow& flow, int value) {
  RootOfMean found;
  bool root = false;
  for (int i = 0; i < most_before; ++i) {
    const OnnxStep* made = flow.maker(before_casts(flow, value));
    if (!made) return std::nullopt;
    if (is_op(made, {"Sqrt"})) {
      root = true, value = made->input(0);
    } else if (is_op(made, {"Pow"}) && root) {
      if (flow.number(made->input(1)) != 2) return std::nullopt;
      found.squared = before_casts(flow, made->input(0));
      return found;
    } else if (is_op(made, {"Mul"}) && root) {
      const int a = before_casts(flow, made->input(0)), b = before_casts(flow, made->input(1));
      if (a != b) return std::nullopt;
      found.squared = a;
      return found;
    } else if (is_op(made, {"Pow"})) { // (…)^0.5
      if (flow.number(made->input(1)) != 0.5) return std::nullopt;
      root = true, value = made->input(0);
    } else if (is_op(made, {"Add"})) {
      const bool second = flow.is_fixed(made->input(1));
      const auto eps = flow.number(made->input(second ? 1 : 0));
      if (!eps) return std::nullopt;
      found.eps = *eps, value = made->input(second ? 0 : 1);
    } else if (is_op(made, {"ReduceMean"})) {
      value = made->input(0);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// x of x − mean(x).
std::optional<int> centred(const OnnxFlow& flow, int value) {
  const OnnxStep* made = flow.maker(value);
  if (!is_op(made, {"Sub"})) return std::nullopt;
  const OnnxStep* mean = flow.maker(before_casts(flow, made->input(1)));
  const int x = before_casts(flow, made->input(0));
  if (!is_op(mean, {"ReduceMean"}) || before_casts(flow, mean->input(0)) != x) return std::nullopt;
  return x;
}

std::optional<OnnxNorm> spelt_out_norm(const OnnxFlow& flow, const OnnxStep& step) {
  int top = -1;
  std::optional<RootOfMean> root;
  if (is_op(&step, {"Div"})) {
    top = step.input(0), root = root_of_mean(flow, step.input(1));
  } else if (is_op(&step, {"Mul"})) {
    for (const std::size_t place : {std::size_t{1}, std::size_t{0}}) {
      const OnnxStep* inverse = flow.maker(before_casts(flow, step.input(place)));
      if (is_op(inverse, {"Reciprocal"})) root = root_of_mean(flow, inverse->input(0));
      if (is_op(inverse, {"Div"})) root = root_of_mean(flow, inverse->input(1));
      if (is_op(inverse, {"Pow"}) && flow.number(inverse->input(1)) == -0.5) {
        // x · (mean + ε)^−0.5: as if its root had been divided by.
        RootOfMean found;
        const OnnxStep* sum = flow.maker(before_casts(flow, inverse->input(0)));
        if (is_op(sum, {"Add"})) {
          const bool second = flow.is_fixed(sum->input(1));
          found.eps = flow.number(sum->input(second ? 1 : 0)).value_or(0);
          const OnnxStep* mean = flow.maker(before_casts(flow, sum->input(second ? 0 : 1)));
          const OnnxStep* square = is_op(mean, {"ReduceMean"})
                                       ? flow.maker(before_casts(flow, mean->input(0)))
                                       : nullptr;
          if (is_op(square, {"Pow", "Mul"})) {
            found.squared = before_casts(flow, square->input(0));
            root = found;
          }
        }
      }
      if (root) {
        top = step.input(1 - place);
        break;
      }
    }
  }
  if (!root) return std::nullopt;
  top = before_casts(flow, top);
  OnnxNorm norm;
  norm.eps = root->eps;
  const std::optional<int> x = centred(flow, top);
  norm.rms = !x;
  norm.x = x.value_or(top);
  const bool same = root->squared == top || (x && centred(flow, root->squared) == x);
  const auto& shape = flow.shape(norm.x);
  if (!same || !shape || shape->empty()) return std::nullopt;
  norm.width = static_cast<std::size_t>(shape->back());
  return norm;
}

} // namespace

std::optional<OnnxNorm> onnx_norm(const OnnxFlow& flow, int value) {
  const OnnxStep* step = flow.maker(value);
  if (!step) return std::nullopt;
  if (auto norm = operator_norm(flow, *step)) return norm;
  return spelt_out_norm(flow, *step);
}

} // namespace mha::io
