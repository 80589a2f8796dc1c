#include <mha/load/graph_reader.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_between.hpp>
#include <mha/formats/onnx_proof.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mha {

using io::OnnxForm;
using io::OnnxProjection;
using io::OnnxStep;

namespace {

/// The relative error of storing in float32, as graphs do with 1 + w and ε.
constexpr double rounding = 1.2e-7;

bool is_close(double a, double b) {
  return std::abs(a - b) <= rounding * std::max(std::abs(a), std::abs(b));
}

/// A vector's numbers plus `offset`; empty for no vector.
std::vector<double> numbers_of(const Tensor& vector, double offset) {
  if (vector.empty()) return {};
  std::vector<double> numbers = values_in_double(vector);
  for (double& number : numbers) number += offset;
  return numbers;
}

bool are_close(const std::vector<double>& found, const std::vector<double>& wanted,
               double otherwise) {
  for (std::size_t i = 0; i < std::max(found.size(), wanted.size()); ++i)
    if (!is_close(found.empty() ? otherwise : found[i], wanted.empty() ? otherwise : wanted[i]))
      return false;
  return true;
}

} // namespace

bool are_same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  const StoredMatrix *x = a.stored(), *y = b.stored();
  if (x && y && x->transposed == y->transposed && x->first == 0 && y->first == 0 &&
      a.count() == x->matrix.count() && b.count() == y->matrix.count())
    return are_same(x->matrix, y->matrix);
  if (a.dtype() == b.dtype() &&
      (a.raw() == b.raw() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0))
    return true;
  for (std::size_t i = 0; i < a.count(); ++i)
    if (value_at(a, i) != value_at(b, i)) return false;
  return true;
}

GraphReader::GraphReader(std::string file, std::shared_ptr<io::OnnxFlow> flow)
    : file_(std::move(file)), flow_(std::move(flow)), projections_(*flow_) {}

void GraphReader::refuse(int value, std::string_view why) const {
  const OnnxStep* step = flow_->maker(value);
  const std::string at =
      step ? io::onnx_step_in_words(*flow_, static_cast<int>(step - flow_->steps.data()))
           : "its inputs";
  fail("{}: the graph computes another model than its names imply: {}, at {}; {}", file_, why, at,
       message("give what names leave open in <config> FILE, or a layer's input instead of a text: "
               "<X=FILE>"));
}

std::vector<int> GraphReader::terms_of(int value) const {
  std::vector<int> terms;
  const OnnxForm form = flow_->form(value, 0);
  for (const OnnxForm::Term& term : form.terms) terms.push_back(flow_->resolved(term.value));
  return terms;
}

int GraphReader::only_term_of(int value) const {
  const std::vector<int> terms = terms_of(value);
  require(terms.size() == 1, value, "there is a sum where one value is expected");
  return terms[0];
}

template <class Holds> bool GraphReader::holds(std::int64_t width, const Holds& at) {
  const io::OnnxDims lengths{tokens(), width};
  flow_->take_passed_steps();
  if (!io::onnx_holds_at_places(lengths, at)) return false;
  const io::OnnxPassedSteps passed = flow_->take_passed_steps();
  for (const int step : passed.roundings) add_once(roundings_, step);
  return (passed.tables.empty() && passed.sums.empty()) ||
         io::onnx_holds_at_more_places(lengths, at);
}

bool GraphReader::is_sum(int value, std::int64_t width, const GraphSum& sum) {
  const auto& shape = flow_->shape(value);
  if (!shape || io::onnx_count(*shape) != tokens() * width) return false;
  return holds(width, [&](const io::OnnxPlaces& at) {
    const std::int64_t flat = at[0] * width + at[1];
    const OnnxForm form = flow_->form(value, flat);
    const double number = sum.number ? sum.number(at[0], at[1]) : 0;
    if (form.terms.size() != sum.terms.size() || !is_close(form.number, number)) return false;
    return std::ranges::all_of(sum.terms, [&](const GraphSum::Term& wanted) {
      const double factor =
          wanted.factors.empty() ? 1 : wanted.factors[static_cast<std::size_t>(at[1])];
      return std::ranges::any_of(form.terms, [&](const OnnxForm::Term& term) {
        return flow_->resolved(term.value) == wanted.value && term.at == flat &&
               is_close(term.factor, factor);
      });
    });
  });
}

void GraphReader::require_sum(int value, std::int64_t width, const GraphSum& sum) {
  require(is_sum(value, width, sum), value, "other numbers are added up than the model's");
}

bool GraphReader::keeps_places(const OnnxStep& step) const {
  if (!step.node->domain.empty()) return false;
  if (step.is("Cast")) { // numbers to numbers, or indices to indices
    const std::int64_t to = step.integer("to", 1);
    const bool whole = flow_->at(flow_->resolved(step.input(0))).whole;
    return whole ? to == 6 || to == 7 : to == 1 || to == 10 || to == 11 || to == 16;
  }
  return is_one_of(step.node->op, {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"});
}

int GraphReader::before_moves(int value) const {
  value = flow_->resolved(value);
  for (const OnnxStep* made = flow_->maker(value); made && keeps_places(*made);
       made = flow_->maker(value))
    value = flow_->resolved(made->input(0));
  return value;
}

GraphSum GraphReader::settle(int value, std::int64_t width) {
  const int at = before_moves(value);
  flow_->stops[static_cast<std::size_t>(at)] = true;
  GraphSum settled{{{at}}};
  require_sum(value, width, settled);
  return settled;
}

int GraphReader::normalised_from(int value) const {
  const auto norm = io::onnx_norm(*flow_, only_term_of(value));
  if (!norm) refuse(value, "there is no norm where the model has one");
  return norm->x;
}

GraphSum GraphReader::require_norm(int term, const Norm& norm, const GraphSum& of,
                                   std::int64_t width) {
  const auto found = io::onnx_norm(*flow_, term);
  if (!found) refuse(term, "there is no norm where the model has one");
  require(norm.kind == (found->rms ? InputNorm::rms : InputNorm::layer), term,
          "the norm is of another kind than the model's");
  require(is_close(found->eps, norm.eps), term, "the norm has another epsilon than the model's");
  require(found->width == static_cast<std::size_t>(width), term, "the norm is of other rows");
  require_sum(found->x, width, of);
  const std::vector<double> weight = numbers_of(norm.weight, norm.one_plus ? 1 : 0),
                            bias = numbers_of(norm.bias, 0);
  GraphSum sum{{{term, {}}}};
  if (found->weight.empty()) {
    sum.terms[0].factors = weight;
    if (!bias.empty())
      sum.number = [bias](std::int64_t, std::int64_t c) {
        return bias[static_cast<std::size_t>(c)];
      };
  } else {
    require(are_close(found->weight, weight, 1) && are_close(found->bias, bias, 0), term,
            "the norm has other weights than the model's");
  }
  return sum;
}

void GraphReader::require_normed(int value, const Norm& norm, const GraphSum& of,
                                 std::int64_t width) {
  if (!norm.present()) return require_sum(value, width, of);
  require_sum(value, width, require_norm(only_term_of(value), norm, of, width));
}

bool GraphReader::is_linear(const OnnxProjection& projection, const LinearMap& map) const {
  if (!projection.plain || projection.in_width != map.in() || projection.out_width != map.out() ||
      projection.rows(*flow_) != tokens())
    return false;
  const Tensor bias = projection.bias < 0 ? Tensor() : flow_->tensor(projection.bias);
  if (!are_close(numbers_of(bias, 0), numbers_of(map.b, 0), 0)) return false;
  return are_same(projection.matrix(*flow_), map.W);
}

const OnnxProjection& GraphReader::require_linear(int value, const LinearMap& map) const {
  const OnnxProjection* projection = projections_.of(flow_->resolved(value));
  if (!projection) refuse(value, "there is no linear map where the model has one");
  require(flow_->resolved(projection->out) == flow_->resolved(value), value,
          "its bias is added elsewhere");
  require(is_linear(*projection, map), value, "it has other weights than the model's");
  return *projection;
}

void GraphReader::require_numbers(int value, const Tensor& numbers) const {
  require(flow_->has_tensor(value) && are_same(flow_->tensor(value), numbers), value,
          "it has other numbers than the model's");
}

} // namespace mha
