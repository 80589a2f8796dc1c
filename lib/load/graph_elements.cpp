// Compares functions of single elements with a graph's steps: activations of a projection.

#include <mha/load/graph_reader.hpp>

#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

using io::OnnxStep;

namespace {

/// A GELU by tanh has the longest chain of steps: eight. Each path to a leaf is counted separately.
constexpr int most_steps = 16;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double gelu(const OnnxStep& step, double x) {
  const bool by_tanh = step.is("FastGelu") || step.text("approximate") == "tanh";
  if (!by_tanh) return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// A step of one operand; NaN where it is not a function of single numbers.
double computed(const OnnxStep& step, double x) {
  if (step.is("Gelu") || step.is("FastGelu")) return gelu(step, x);
  if (step.is("QuickGelu")) return x * sigmoid(step.number("alpha").value_or(1.702) * x);
  return step.node->domain.empty() && step.rule->unary ? step.rule->unary(x) : NAN;
}

double computed(const OnnxStep& step, double x, double y) {
  return step.node->domain.empty() && step.rule->binary ? step.rule->binary(x, y) : NAN;
}

/// The activation of one number.
double activated(Activation activation, double x) {
  const auto by_tanh = [x](double root) {
    return x / 2 * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
  };
  switch (activation) {
  case Activation::identity:
    return x;
  case Activation::relu:
    return std::max(x, 0.0);
  case Activation::relu2:
    return x < 0 ? 0 : x * x;
  case Activation::silu:
    return x * sigmoid(x);
  case Activation::gelu:
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  case Activation::gelu_tanh:
    return by_tanh(std::sqrt(2 / M_PI));
  case Activation::gelu_fast:
    return by_tanh(0.7978845608);
  case Activation::gelu_quick:
    return x * sigmoid(1.702 * x);
  case Activation::solu: // of the whole row
    return NAN;
  }
  return NAN;
}

} // namespace

void GraphReader::collect_leaves(int value, int depth, std::vector<int>& leaves) {
  value = flow_->resolved(value);
  if (flow_->is_fixed(value)) return;
  if (projections_.of(value)) return add_once(leaves, value);
  const OnnxStep* step = flow_->maker(value);
  const auto& shape = flow_->shape(value);
  require(step && shape && depth < most_steps, value,
          "it is made of other steps than an activation's");
  const bool keeps = keeps_places(*step);
  if (const std::int64_t to = step->integer("to", 1); step->is("Cast") && (to == 10 || to == 16))
    add_once(roundings_, static_cast<int>(step - flow_->steps.data()));
  for (std::size_t i = 0; i < (keeps ? 1 : step->inputs.size()); ++i) {
    const int input = step->inputs[i];
    if (input < 0 || flow_->is_fixed(input)) continue;
    const auto& in = flow_->shape(input);
    require(in && io::onnx_count(*in) == io::onnx_count(*shape) &&
                (keeps || in->back() == shape->back()),
            value, "it repeats or drops numbers");
    collect_leaves(input, depth + 1, leaves);
  }
}

std::vector<int> GraphReader::leaves_of(int value) {
  std::vector<int> leaves;
  collect_leaves(value, 0, leaves);
  return leaves;
}

double GraphReader::element(int value, const std::map<int, double>& leaves, int depth) const {
  value = flow_->resolved(value);
  if (const auto leaf = leaves.find(value); leaf != leaves.end()) return leaf->second;
  if (flow_->is_fixed(value)) { // one number for all elements
    const std::vector<double> numbers = flow_->numbers(value, 1);
    return numbers.size() == 1 ? numbers[0] : NAN;
  }
  const OnnxStep* step = flow_->maker(value);
  if (!step || depth >= most_steps) return NAN;
  if (keeps_places(*step)) return element(step->input(0), leaves, depth + 1);
  std::vector<double> given;
  for (const int input : step->inputs)
    given.push_back(input < 0 ? NAN : element(input, leaves, depth + 1));
  return given.size() == 1   ? computed(*step, given[0])
         : given.size() == 2 ? computed(*step, given[0], given[1])
                             : NAN;
}

void GraphReader::require_function(int value, int of, const std::function<double(double)>& f,
                                   std::string_view why, int times) const {
  constexpr double largest = 50, step = 0.37, tolerance = 1e-6;
  for (double x = -largest; x < largest; x += step)
    for (const double y : {1.0, -0.75, 3.0}) {
      std::map<int, double> leaves{{of, x}};
      if (times >= 0) leaves[times] = y;
      const double found = element(value, leaves, 0), wanted = f(x) * (times < 0 ? 1 : y);
      require(std::abs(found - wanted) <= tolerance * (1 + std::abs(wanted)), value, why);
    }
}

void GraphReader::require_activation(int value, Activation activation, int of, int times) const {
  require_function(
      value, of, [activation](double x) { return activated(activation, x); },
      "the activation is another one than the model's", times);
}

} // namespace mha
