#include <mha/formats/onnx_operators.hpp>

#include <mha/formats/onnx_between.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::io {

bool OnnxOperatorInputs::because(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return false;
}

bool OnnxOperatorInputs::is_truth(int value, int depth) const {
  value = flow_.resolved(value);
  if (value < 0 || depth > 32) return false;
  const OnnxValue& of = flow_.at(value);
  if (of.constant >= 0)
    return flow_.constants[static_cast<std::size_t>(of.constant)].array.dtype == DType::boolean;
  if (of.info && of.info->type != 0) return of.info->type == 9;
  const OnnxStep* made = flow_.maker(value);
  if (!made) return false;
  if (made->is("Cast")) return made->integer("to", 1) == 9;
  if (made->is("ConstantOfShape")) {
    const OnnxAttribute* filled = made->find("value");
    return filled && filled->tensor && filled->tensor->type == 9;
  }
  if (is_one_of(made->node->op, {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And",
                                 "Or", "Xor", "Not", "IsNaN", "IsInf"}))
    return true;
  return is_truth(made->input(made->is("Where") ? 1 : 0), depth + 1);
}

void OnnxOperatorInputs::take_mask(std::size_t place) {
  const int mask = step_.input(place);
  site_.added = [](std::int64_t, std::int64_t, std::int64_t) { return std::optional(0.0); };
  if (mask < 0) return;
  site_.scores_value = mask;
  const auto& axes = flow_.shape(mask);
  const bool truth = step_.node->domain.empty() && is_truth(mask);
  if (!flow_.is_fixed(mask)) {
    site_.needs =
        truth ? message("its mask is boolean and made while the model runs: give <mask=FILE> (true "
                        "= may attend)")
              : message("its mask is made while the model runs: give <mask=FILE> or <bias=FILE>");
    return;
  }
  if (!axes || axes->size() < 2 || axes->size() > 4) {
    because("the lengths of its mask are not known");
    return;
  }
  site_.added_value = mask;
  site_.added = [mask, truth, axes = *axes, &flow = flow_](
                    std::int64_t l, std::int64_t t, std::int64_t s) -> std::optional<double> {
    const std::array<std::int64_t, 4> places{0, l, t, s};
    const auto own = std::span(places).last(axes.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      if (axes[i] != 1 && own[i] >= axes[i]) return std::nullopt;
    const auto number = flow.number(mask, onnx_flat(axes, own));
    if (!number || !truth) return number;
    return *number != 0 ? 0 : -INFINITY;
  };
}

bool OnnxOperatorInputs::is_length(std::size_t place, std::int64_t length, const char* name) {
  const int value = step_.input(place);
  if (value < 0) return true;
  if (follows_from_input(flow_, value)) {
    if (name == std::string_view("nonpad_kv_seqlen"))
      site_.remarks.push_back(
          Message("its input nonpad_kv_seqlen is taken as the length of all keys: ") +
          message("give <attention_mask=FILE> where a text is padded"));
    return true;
  }
  const std::vector<double> numbers = flow_.numbers(value);
  const bool whole = !numbers.empty() && std::ranges::all_of(numbers, [&](double one) {
    return one == static_cast<double>(length);
  });
  return whole || because(fmt::format("its input {} is a constant that is not the length of "
                                      "its whole input",
                                      name));
}

bool OnnxOperatorInputs::counts_positions(std::size_t place) {
  const int value = step_.input(place);
  if (value < 0) return true;
  const std::vector<double> numbers = flow_.numbers(value, 1 << 16);
  bool counts = !numbers.empty();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    counts &= numbers[i] == static_cast<double>(static_cast<std::int64_t>(i) % site_.T);
  return counts || because("its input position_ids does not count 0, 1, 2 …");
}

bool OnnxOperatorInputs::take_sinks(std::int64_t heads) {
  const int sinks = step_.input(11);
  if (sinks >= 0) {
    site_.sinks = flow_.numbers(sinks, 1 << 16);
    return site_.sinks.size() == static_cast<std::size_t>(heads) ||
           because("its input head_sink is made while the model runs");
  }
  if (step_.integer("smooth_softmax", -1) > 0)
    site_.sinks.assign(static_cast<std::size_t>(heads), 0);
  return true;
}

bool OnnxOperatorInputs::take_key_mask(std::size_t place, const char* name) {
  const int mask = step_.input(place);
  if (mask < 0) return true;
  if (follows_from_input(flow_, mask)) {
    if (!flow_.is_fixed(mask)) // inputs that are named as masks count as ones
      site_.needs = Message(fmt::format("its input {} follows from an input: ", name)) +
                    message("give <attention_mask=FILE>");
    return true;
  }
  const auto& axes = flow_.shape(mask);
  if (axes && axes->size() == 1) return is_length(place, site_.S, name);
  const std::vector<double> numbers = flow_.numbers(mask, 1 << 16);
  const bool shows =
      !numbers.empty() && std::ranges::all_of(numbers, [](double one) { return one != 0; });
  return shows || because(fmt::format("its input {} is a constant that hides keys", name));
}

} // namespace mha::io
