// Single elements of a graph's values as sums of elements of other values.

#include <mha/formats/onnx_elements.hpp>
#include <mha/formats/onnx_shapes.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

constexpr int most_deep = 300;               ///< nested steps, which use the call stack
constexpr std::size_t most_terms = 8;        ///< of a sum: a rotary embedding has two
constexpr std::int64_t most_visits = 40'000; ///< steps for one element

} // namespace

void add_onnx_form(OnnxForm& sum, const OnnxForm& part, double factor) {
  sum.number += part.number == 0 ? 0 : part.number * factor;
  for (const OnnxForm::Term& term : part.terms) {
    const auto same = std::ranges::find_if(sum.terms, [&](const OnnxForm::Term& one) {
      return one.value == term.value && one.at == term.at;
    });
    if (same == sum.terms.end())
      sum.terms.push_back({term.value, term.at, term.factor * factor});
    else
      same->factor += term.factor * factor;
  }
  sum.terms.remove([](const OnnxForm::Term& term) { return term.factor == 0; });
}

OnnxForm scaled_onnx_form(const OnnxForm& form, double factor) {
  OnnxForm result;
  add_onnx_form(result, form, factor);
  return result;
}

OnnxForm OnnxElements::form(int value, std::int64_t flat, int depth) const {
  value = flow_.resolved(value);
  const auto alone = [&] { return OnnxForm{{{value, flat, 1}}, 0}; };
  if (value < 0 || flat < 0 || flow_.stops[static_cast<std::size_t>(value)]) return alone();
  const OnnxValue& of = flow_.at(value);
  if (const auto place = static_cast<std::size_t>(flat); !of.numbers.empty())
    return place < of.numbers.size() ? OnnxForm{{}, of.numbers[place]} : alone();
  if (of.constant >= 0) return constant(of, flat).value_or(alone());
  if (of.is_input) return input(of, flat).value_or(alone());
  const OnnxStep* step = flow_.maker(value);
  if (!step || !of.shape || depth > most_deep || flow_.visits_ <= 0) return alone();
  double* const known = flow_.known(value, flat);
  if (known && !std::isnan(*known)) return OnnxForm{{}, *known};
  if (--flow_.budget_ < 0) return alone();
  --flow_.visits_;
  std::optional<OnnxForm> made = made_by(*step, of, flat, depth + 1);
  if (known && made && made->terms.empty()) *known = made->number;
  return made && made->terms.size() <= most_terms ? std::move(*made) : alone();
}

MaybeOnnxForm OnnxElements::of_number(std::optional<double> number) {
  if (!number) return std::nullopt;
  return OnnxForm{{}, *number};
}

MaybeOnnxForm OnnxElements::constant(const OnnxValue& of, std::int64_t flat) const {
  const auto place = static_cast<std::size_t>(of.constant);
  const OnnxFlow::Constant& constant = flow_.constants[place];
  Tensor& read = flow_.read_[place];
  if (read.empty()) read = constant.array.read();
  if (static_cast<std::uint64_t>(flat) >= read.count()) return std::nullopt;
  return of_number(value_at(read, static_cast<std::size_t>(flat)));
}

MaybeOnnxForm OnnxElements::input(const OnnxValue& of, std::int64_t flat) const {
  if (!of.fixed) return std::nullopt;
  if (of.name == "use_cache_branch") return of_number(0);
  const bool has_axis = of.shape && !of.shape->empty() && of.shape->back() > 0;
  if (of.name.find("osition") == std::string_view::npos)
    return of_number(flow_.padded && has_axis && (flat + 1) % of.shape->back() == 0 ? 0 : 1);
  if (!has_axis) return std::nullopt;
  return of_number(static_cast<double>(flat % of.shape->back()));
}

MaybeOnnxForm OnnxElements::passed(const OnnxStep& step, std::size_t place, std::int64_t flat,
                                   int depth) const {
  if (step.input(place) < 0) return std::nullopt;
  return form(step.inputs[place], flat, depth);
}

std::optional<double> OnnxElements::number(const OnnxStep& step, std::size_t place,
                                           std::int64_t flat, int depth) const {
  if (!flow_.is_fixed(step.input(place))) return std::nullopt;
  const OnnxForm form = this->form(step.inputs[place], flat, depth);
  return form.terms.empty() ? std::optional(form.number) : std::nullopt;
}

MaybeOnnxForm OnnxElements::repeated(const OnnxStep& step, std::size_t place, const OnnxDims& out,
                                     std::int64_t flat, int depth) const {
  const auto& in = flow_.shape(step.input(place));
  if (!in || in->size() > out.size()) return std::nullopt;
  return form(step.inputs[place], onnx_flat_of_repeated(*in, out, flat), depth);
}

MaybeOnnxForm OnnxElements::made_by(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                    int depth) const {
  const OnnxRule& rule = *step.rule;
  if (!rule.element || (!step.node->domain.empty() && !rule.any_domain)) return std::nullopt;
  return (this->*rule.element)(step, of, flat, depth);
}

MaybeOnnxForm OnnxElements::unchanged(const OnnxStep& step, const OnnxValue& /*of*/,
                                      std::int64_t flat, int depth) const {
  return passed(step, 0, flat, depth);
}

MaybeOnnxForm OnnxElements::negated(const OnnxStep& step, const OnnxValue& /*of*/,
                                    std::int64_t flat, int depth) const {
  const MaybeOnnxForm positive = passed(step, 0, flat, depth);
  return positive ? MaybeOnnxForm(scaled_onnx_form(*positive, -1)) : std::nullopt;
}

MaybeOnnxForm OnnxElements::unary(const OnnxStep& step, const OnnxValue& /*of*/, std::int64_t flat,
                                  int depth) const {
  if (step.inputs.size() != 1 || !flow_.is_fixed(step.inputs[0])) return std::nullopt;
  return of_number(step.rule->unary(number(step, 0, flat, depth).value_or(NAN)));
}

/// Dequantised activations count as the numbers before quantisation.
MaybeOnnxForm OnnxElements::dequantised(const OnnxStep& step, const OnnxValue& /*of*/,
                                        std::int64_t flat, int depth) const {
  const OnnxStep* rounded = flow_.maker(step.input(0));
  if (!rounded || !rounded->is("QuantizeLinear")) return std::nullopt;
  MaybeOnnxForm form = passed(*rounded, 0, flat, depth);
  meet_rounding(*rounded, form);
  return form;
}

MaybeOnnxForm OnnxElements::expanded(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                     int depth) const {
  return repeated(step, 0, *of.shape, flat, depth);
}

MaybeOnnxForm OnnxElements::transposed(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                       int depth) const {
  const OnnxDims& out = *of.shape;
  const auto& in = flow_.shape(step.input(0));
  const OnnxDims& order = step.integers("perm");
  if (!in || out.size() != in->size() || (!order.empty() && order.size() != in->size()))
    return std::nullopt;
  const OnnxPlaces places = onnx_places(out, flat);
  OnnxPlaces from(in->size(), 0);
  for (std::size_t i = 0; i < out.size(); ++i)
    from[order.empty() ? in->size() - 1 - i
                       : static_cast<std::size_t>(onnx_axis(order[i], in->size()))] = places[i];
  return form(step.inputs[0], onnx_flat(*in, from), depth);
}

MaybeOnnxForm OnnxElements::tiled(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                  int depth) const {
  const auto& in = flow_.shape(step.input(0));
  if (!in) return std::nullopt;
  OnnxPlaces places = onnx_places(*of.shape, flat);
  for (std::size_t i = 0; i < places.size(); ++i)
    if ((*in)[i] > 0) places[i] %= (*in)[i];
  return form(step.inputs[0], onnx_flat(*in, places), depth);
}

MaybeOnnxForm OnnxElements::sliced(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                   int depth) const {
  const auto& input = flow_.shape(step.input(0));
  if (!input) return std::nullopt;
  const OnnxDims& in = *input;
  OnnxPlaces places = onnx_places(*of.shape, flat);
  const auto list = [&](const char* attribute, std::size_t place) {
    using Places = ShortList<std::int64_t, 4>;
    if (const OnnxAttribute* found = step.find(attribute))
      return Places(found->integers.data(), found->integers.data() + found->integers.size());
    Places result;
    if (step.input(place) < 0) return result;
    for (const double number : flow_.at(flow_.resolved(step.inputs[place])).numbers)
      result.push_back(static_cast<std::int64_t>(std::clamp(number, -9e18, 9e18)));
    return result;
  };
  const auto starts = list("starts", 1), ends = list("ends", 2), axes = list("axes", 3),
             steps = list("", 4);
  for (std::size_t i = 0; i < starts.size() && i < ends.size(); ++i) {
    const std::int64_t axis =
        onnx_axis(i < axes.size() ? axes[i] : static_cast<std::int64_t>(i), in.size());
    if (axis < 0) return std::nullopt;
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t stride = i < steps.size() ? steps[i] : 1;
    places[at] = onnx_slice(starts[i], ends[i], stride, in[at]).first + places[at] * stride;
    if (places[at] < 0 || places[at] >= in[at]) return std::nullopt;
  }
  return form(step.inputs[0], onnx_flat(in, places), depth);
}

MaybeOnnxForm OnnxElements::split(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                  int depth) const {
  const auto& input = flow_.shape(step.input(0));
  if (!input) return std::nullopt;
  const OnnxDims& in = *input;
  OnnxPlaces places = onnx_places(*of.shape, flat);
  const std::int64_t axis = onnx_axis(step.integer("axis", 0), in.size());
  if (axis < 0) return std::nullopt;
  for (int before = 0; before < of.output; ++before) {
    const auto& other = flow_.shape(step.outputs[static_cast<std::size_t>(before)]);
    if (!other) return std::nullopt;
    places[static_cast<std::size_t>(axis)] += (*other)[static_cast<std::size_t>(axis)];
  }
  return form(step.inputs[0], onnx_flat(in, places), depth);
}

MaybeOnnxForm OnnxElements::joined(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                   int depth) const {
  OnnxPlaces places = onnx_places(*of.shape, flat);
  const std::int64_t axis = onnx_axis(step.integer("axis", 0), places.size());
  if (axis < 0) return std::nullopt;
  std::int64_t& at = places[static_cast<std::size_t>(axis)];
  for (const int input : step.inputs) {
    const auto& shape = flow_.shape(input);
    if (!shape || shape->size() != places.size()) return std::nullopt;
    const std::int64_t length = (*shape)[static_cast<std::size_t>(axis)];
    if (at < length) return form(input, onnx_flat(*shape, places), depth);
    at -= length;
  }
  return std::nullopt;
}

MaybeOnnxForm OnnxElements::gathered(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                     int depth) const {
  const auto& input = flow_.shape(step.input(0));
  if (!input) return std::nullopt;
  const OnnxDims& in = *input;
  const OnnxPlaces places = onnx_places(*of.shape, flat);
  const auto& chosen = flow_.shape(step.input(1));
  const std::int64_t axis = onnx_axis(step.integer("axis", 0), in.size());
  if (!chosen || axis < 0) return std::nullopt;
  const std::int64_t* const first = places.begin() + axis;
  const auto count = static_cast<std::ptrdiff_t>(chosen->size());
  const auto index = number(step, 1, onnx_flat(*chosen, {first, first + count}), depth);
  if (!index) return std::nullopt;
  const std::int64_t length = in[static_cast<std::size_t>(axis)];
  const auto at =
      static_cast<std::int64_t>(*index < 0 ? *index + static_cast<double>(length) : *index);
  if (at < 0 || at >= length) return std::nullopt;
  OnnxPlaces from(places.begin(), first);
  from.push_back(at);
  for (const std::int64_t* after = first + count; after < places.end(); ++after)
    from.push_back(*after);
  MaybeOnnxForm form = this->form(step.inputs[0], onnx_flat(in, from), depth);
  if (!form->terms.empty() && has_several(step.inputs[1])) meet_table(step);
  return form;
}

MaybeOnnxForm OnnxElements::arithmetic(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                       int depth) const {
  const std::string_view op = step.node->op;
  const OnnxDims& out = *of.shape;
  if (step.inputs.size() != 2) return std::nullopt;
  MaybeOnnxForm a = repeated(step, 0, out, flat, depth), b = repeated(step, 1, out, flat, depth);
  if (!a || !b) return std::nullopt;
  const bool is_sum = op == "Add" || op == "Sub";
  if (a->terms.empty() != b->terms.empty() && has_several(step.inputs[a->terms.empty() ? 0 : 1]))
    meet_table(step, is_sum);
  if (is_sum) {
    add_onnx_form(*a, *b, op == "Add" ? 1 : -1);
    return a;
  }
  if (op == "Mul" && a->terms.empty()) std::swap(a, b);
  if (!b->terms.empty()) return std::nullopt;
  if (op == "Mul")
    return a->terms.empty() ? OnnxForm{{}, a->number * b->number} : scaled_onnx_form(*a, b->number);
  if (op == "Div" && !a->terms.empty()) return scaled_onnx_form(*a, 1 / b->number);
  if (op == "Div") {
    const double quotient = a->number / b->number;
    return OnnxForm{{}, of.whole ? std::trunc(quotient) : quotient};
  }
  if (!a->terms.empty()) return std::nullopt;
  // C's remainder has the sign of the dividend.
  if (op == "Mod" && step.integer("fmod", 0) != 0)
    return of_number(b->number == 0 ? NAN : std::fmod(a->number, b->number));
  return of_number(step.rule->binary(a->number, b->number));
}

OnnxForm OnnxFlow::form(int value, std::int64_t flat, bool unmasked) const {
  budget_ = most_visits, unmasked_ = unmasked;
  return OnnxElements(*this).form(value, flat, 0);
}

std::optional<double> OnnxFlow::number(int value, std::int64_t flat) const {
  if (!is_fixed(value)) return std::nullopt;
  const OnnxForm form = this->form(value, flat);
  return form.terms.empty() ? std::optional(form.number) : std::nullopt;
}

std::vector<double> OnnxFlow::numbers(int value, std::size_t most) const {
  std::vector<double> list;
  const auto& of = shape(value);
  const std::int64_t count = of ? onnx_count(*of) : -1;
  if (!is_fixed(value) || count < 0 || count > static_cast<std::int64_t>(most)) return list;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto element = number(value, i);
    if (!element) return {};
    list.push_back(*element);
  }
  return list;
}

} // namespace mha::io
