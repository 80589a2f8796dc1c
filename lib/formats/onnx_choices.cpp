// Elements of operators that convert, limit or choose: Cast, Dropout, Clip, Max, Min, Where.

#include <mha/formats/onnx_elements.hpp>
#include <mha/formats/onnx_shapes.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

constexpr double no_score = 1e4; ///< no score or element is larger, so such bounds have no effect

} // namespace

MaybeOnnxForm OnnxElements::cast(const OnnxStep& step, const OnnxValue& /*of*/, std::int64_t flat,
                                 int depth) const {
  MaybeOnnxForm form = passed(step, 0, flat, depth);
  const std::int64_t to = step.integer("to", 1);
  const bool floating = to == 1 || to == 10 || to == 11 || to == 16;
  if (floating) meet_rounding(step, form);
  if (!form || floating) return form;
  if (!form->terms.empty()) return std::nullopt;
  form->number = to == 9 ? (form->number != 0 ? 1 : 0) : std::trunc(form->number);
  return form;
}

MaybeOnnxForm OnnxElements::cast_like(const OnnxStep& step, const OnnxValue& /*of*/,
                                      std::int64_t flat, int depth) const {
  MaybeOnnxForm form = passed(step, 0, flat, depth);
  const int like = flow_.resolved(step.input(1));
  if (!form || form->terms.empty() || like < 0) return form;
  const int constant = flow_.at(like).constant;
  if (constant < 0) return flow_.at(like).whole ? std::nullopt : std::move(form);
  const DType dtype = flow_.constants[static_cast<std::size_t>(constant)].array.dtype;
  if (!is_floating(dtype)) return std::nullopt;
  if (size_of(dtype) < sizeof(float)) meet_rounding(step, form);
  return form;
}

MaybeOnnxForm OnnxElements::dropout(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                    int depth) const {
  if (of.output != 0 || !drops_nothing(step)) return std::nullopt;
  return passed(step, 0, flat, depth);
}

bool OnnxElements::drops_nothing(const OnnxStep& step) const {
  constexpr std::int64_t without_is_test = 7, with_training_mode = 12;
  if (flow_.opset < without_is_test) return step.integer("is_test", 0) != 0;
  if (flow_.opset < with_training_mode || step.input(2) < 0) return true;
  return flow_.number(step.inputs[2]) == 0;
}

void OnnxElements::meet_table(const OnnxStep& step, bool is_sum) const {
  add_once(is_sum ? flow_.passed_.sums : flow_.passed_.tables,
           static_cast<int>(&step - flow_.steps.data()));
}

void OnnxElements::meet_rounding(const OnnxStep& step, const MaybeOnnxForm& form) const {
  if (form && !form->terms.empty())
    add_once(flow_.passed_.roundings, static_cast<int>(&step - flow_.steps.data()));
}

bool OnnxElements::has_several(int value) const {
  const auto& shape = flow_.shape(value);
  return !shape || onnx_count(*shape) != 1;
}

MaybeOnnxForm OnnxElements::where(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                  int depth) const {
  const OnnxDims& out = *of.shape;
  // NaN weights in rows without a visible key become 0.
  if (replaces_nan(step)) return repeated(step, 2, out, flat, depth);
  if (!flow_.is_fixed(step.input(0))) return std::nullopt;
  if (flow_.unmasked_ && !(flow_.is_fixed(step.input(1)) && flow_.is_fixed(step.input(2))))
    for (const std::size_t place : {std::size_t{1}, std::size_t{2}})
      if (!flow_.is_fixed(step.input(place)) && flow_.is_fixed(step.input(3 - place)))
        return repeated(step, place, out, flat, depth);
  const MaybeOnnxForm chosen = repeated(step, 0, out, flat, depth);
  if (!chosen || !chosen->terms.empty()) return std::nullopt;
  MaybeOnnxForm form = repeated(step, chosen->number != 0 ? 1 : 2, out, flat, depth);
  const bool first = flow_.is_fixed(step.input(1)), second = flow_.is_fixed(step.input(2));
  if (!(first && second) && has_several(step.inputs[0])) meet_table(step, first || second);
  return form;
}

bool OnnxElements::replaces_nan(const OnnxStep& step) const {
  const OnnxStep* condition = flow_.maker(step.input(0));
  if (!condition || !condition->is("IsNaN") || !flow_.is_fixed(step.input(1))) return false;
  const std::vector<double> instead = flow_.numbers(step.input(1), 1);
  return flow_.resolved(condition->input(0)) == flow_.resolved(step.input(2)) &&
         instead == std::vector<double>{0};
}

MaybeOnnxForm OnnxElements::bounded(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                    int depth) const {
  const OnnxDims& out = *of.shape;
  const std::string_view op = step.node->op;
  const bool clip = op == "Clip";
  double least = -INFINITY, most = INFINITY;
  MaybeOnnxForm kept;
  if (clip) least = step.number("min").value_or(least), most = step.number("max").value_or(most);
  for (std::size_t place = 0; place < step.inputs.size(); ++place) {
    if (step.inputs[place] < 0) continue;
    MaybeOnnxForm one =
        clip && place > 0 ? passed(step, place, 0, depth) : repeated(step, place, out, flat, depth);
    if (!one) return std::nullopt;
    if (!kept && (!one->terms.empty() || (clip && place == 0))) {
      kept = std::move(one);
      continue;
    }
    if (!one->terms.empty()) return std::nullopt;
    double& bound = clip ? (place == 1 ? least : most) : op == "Max" ? least : most;
    bound = op == "Min" || (clip && place == 2) ? std::min(bound, one->number)
                                                : std::max(bound, one->number);
  }
  if (!kept) return of_number(op == "Max" ? least : most);
  if (kept->terms.empty()) return of_number(std::min(std::max(kept->number, least), most));
  // Bounds that scores and elements never reach, such as the least number of a type, have no
  // effect.
  double largest = 1;
  for (const OnnxForm::Term& term : kept->terms) largest = std::max(largest, std::abs(term.factor));
  if (least > -no_score * largest || most < no_score * largest) return std::nullopt;
  return kept;
}

} // namespace mha::io
