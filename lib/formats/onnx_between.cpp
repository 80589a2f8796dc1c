#include <mha/formats/onnx_between.hpp>

#include <mha/files/text.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

constexpr std::size_t most_searched = 256; ///< steps between two products and beside them
constexpr std::size_t most_named = 32;

int place_of(const OnnxFlow& flow, const OnnxStep& step) {
  return static_cast<int>(&step - flow.steps.data());
}

bool is_lengths_only(const OnnxStep& step) {
  return step.is("Shape") || step.is("Size");
}

bool is_mover(const OnnxStep& step) {
  return is_one_of(step.node->op,
                   {"Reshape", "Transpose", "Cast", "Identity", "Squeeze", "Unsqueeze", "Flatten",
                    "Gather", "Slice", "Split", "Concat", "Expand", "Tile"});
}

/// The steps that a value depends on, each once, back to the steps for which `stop` returns true.
template <class Stop> std::vector<int> steps_back(const OnnxFlow& flow, int from_value, Stop stop) {
  std::vector<int> found, values{from_value};
  for (std::size_t i = 0; i < values.size() && i < most_searched; ++i) {
    const OnnxStep* made = flow.is_fixed(values[i]) ? nullptr : flow.maker(values[i]);
    if (!made || is_lengths_only(*made)) continue;
    const bool ends = stop(*made, values[i]);
    add_once(found, place_of(flow, *made));
    if (ends) continue;
    for (const int input : made->inputs)
      if (input >= 0) add_once(values, flow.resolved(input));
  }
  return found;
}

} // namespace

bool is_onnx_product(const OnnxFlow& flow, const OnnxStep& step) {
  return (step.is("MatMul") || step.is("FusedMatMul") || step.is("Gemm") || step.is("Einsum")) &&
         step.inputs.size() >= 2 && step.inputs[0] >= 0 && step.inputs[1] >= 0 &&
         !flow.is_fixed(step.inputs[0]) && !flow.is_fixed(step.inputs[1]);
}

bool is_between_products(const OnnxFlow& flow, const OnnxProjections& projections, int step) {
  const OnnxStep& at = flow.steps[static_cast<std::size_t>(step)];
  if (at.inputs.empty() || at.outputs.empty()) return false;
  bool after_product = false;
  steps_back(flow, at.input(0), [&](const OnnxStep& made, int value) {
    after_product |= is_onnx_product(flow, made);
    return is_onnx_product(flow, made) || projections.of(value) != nullptr;
  });
  if (!after_product) return false;
  std::vector<int> values{at.outputs[0]};
  for (std::size_t i = 0; i < values.size() && i < most_searched; ++i) {
    if (values[i] < 0) continue;
    for (const int consumer : flow.at(flow.resolved(values[i])).consumers) {
      const OnnxStep& next = flow.steps[static_cast<std::size_t>(consumer)];
      if (is_onnx_product(flow, next)) return true;
      if (projections.of_step(consumer) || next.is("Softmax") || is_lengths_only(next)) continue;
      for (const int output : next.outputs) add_once(values, output);
    }
  }
  return false;
}

bool follows_from_projection(const OnnxFlow& flow, const OnnxProjections& projections, int value) {
  bool follows = false;
  const std::vector<int> steps = steps_back(flow, value, [&](const OnnxStep&, int made) {
    follows |= projections.of(made) != nullptr;
    return follows;
  });
  return follows || steps.size() >= most_searched;
}

bool follows_from_input(const OnnxFlow& flow, int value) {
  std::vector<int> values{flow.resolved(value)};
  for (std::size_t i = 0; i < values.size() && i < most_searched; ++i) {
    if (flow.at(values[i]).is_input) return true;
    const OnnxStep* made = flow.maker(values[i]);
    if (!made || is_lengths_only(*made)) continue;
    for (const int input : made->inputs)
      if (input >= 0) add_once(values, flow.resolved(input));
  }
  return values.size() >= most_searched;
}

std::vector<int> onnx_steps_before(const OnnxFlow& flow, const OnnxProjections& projections,
                                   int value) {
  std::vector<int> steps = steps_back(flow, value, [&](const OnnxStep& made, int at) {
    return is_onnx_product(flow, made) || projections.of(at) || made.is("Softmax");
  });
  std::erase_if(steps, [&](int step) {
    return is_onnx_product(flow, flow.steps[static_cast<std::size_t>(step)]);
  });
  return steps;
}

std::vector<int> onnx_steps_of_unknown_shape(const OnnxFlow& flow,
                                             const OnnxProjections& projections, int value) {
  for (std::size_t i = 0; i < most_searched; ++i) {
    const OnnxStep* made = flow.maker(value);
    if (!made) return {};
    const auto unknown = std::ranges::find_if(made->inputs, [&](int input) {
      return input >= 0 && !flow.is_fixed(input) &&
             (!flow.shape(input) || onnx_count(*flow.shape(input)) <= 0);
    });
    // Products are entered: lengths that do not fit may come from both operands.
    if (unknown == made->inputs.end())
      return steps_back(flow, made->outputs[0],
                        [&](const OnnxStep&, int at) { return projections.of(at) != nullptr; });
    value = *unknown;
  }
  return {};
}

std::vector<int> onnx_steps_before_product(const OnnxFlow& flow, const OnnxProjections& projections,
                                           const OnnxStep& product) {
  std::vector<int> steps;
  for (const int input : product.inputs) {
    if (input < 0 || flow.is_fixed(input)) continue;
    for (const int step : flow.shape(input) ? onnx_steps_before(flow, projections, input)
                                            : onnx_steps_of_unknown_shape(flow, projections, input))
      add_once(steps, step);
  }
  return steps;
}

std::string onnx_step_in_words(const OnnxFlow& flow, int step) {
  const OnnxStep& at = flow.steps[static_cast<std::size_t>(step)];
  std::string name = at.name;
  if (name.empty() && !at.outputs.empty() && at.outputs[0] >= 0) name = flow.at(at.outputs[0]).name;
  const std::string_view op = at.node->op;
  return name.empty() ? shown(op) : fmt::format("'{}' ({})", shown(name), shown(op));
}

std::string onnx_steps_in_words(const OnnxFlow& flow, const std::vector<int>& steps) {
  std::string words;
  for (std::size_t i = 0; i < steps.size() && i < most_named; ++i)
    words += (i == 0 ? "" : ", ") + onnx_step_in_words(flow, steps[i]);
  return words + (steps.size() > most_named ? " …" : "");
}

std::vector<int> onnx_steps_in_the_way(const OnnxFlow& flow, const OnnxProjections& projections,
                                       std::vector<int> known, std::initializer_list<int> values) {
  const bool suffices = std::ranges::any_of(
      known, [&](int step) { return !is_mover(flow.steps[static_cast<std::size_t>(step)]); });
  if (suffices) return known;
  for (const int value : values)
    if (value >= 0)
      for (const int step : onnx_steps_before(flow, projections, value)) add_once(known, step);
  return known;
}

std::vector<int> steps_instead_of_softmax(const OnnxFlow& flow,
                                          const OnnxProjections& projections) {
  std::vector<int> found;
  for (std::size_t i = 0; i < flow.steps.size(); ++i) {
    const OnnxStep& step = flow.steps[i];
    if (!is_onnx_product(flow, step)) continue;
    // The nearest step before a product that depends on another product without a Softmax.
    for (const int input : {step.inputs[0], step.inputs[1]}) {
      bool softmax = false, product = false;
      int nearest = -1;
      steps_back(flow, input, [&](const OnnxStep& made, int value) {
        softmax |= made.is("Softmax"), product |= is_onnx_product(flow, made);
        if (projections.of(value) || made.is("Softmax") || is_onnx_product(flow, made)) return true;
        if (nearest < 0 && !is_mover(made)) nearest = place_of(flow, made);
        return false;
      });
      if (product && !softmax && nearest >= 0) add_once(found, nearest);
    }
  }
  return found;
}

} // namespace mha::io
