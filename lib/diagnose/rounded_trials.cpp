// The rounding of trials: which differences rounding explains, number by number.

#include <mha/compare/compare.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/layer/graph.hpp>

#include <cmath>

namespace mha {

namespace {

double root_of_mean(const std::vector<double>& squares) {
  double sum = 0;
  std::size_t count = 0;
  for (const double square : squares)
    if (std::isfinite(square)) sum += square, ++count;
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

/// The root mean square, without huge numbers.
double size_of(const Tensor& tensor) {
  std::vector<double> squares = values_in_double(tensor);
  for (double& a : squares) a = std::fabs(a) < thresholds::huge ? a * a : NAN;
  return root_of_mean(squares);
}

/// The variances of the stream that enters a layer of a model or its end: earlier layers rounded
/// each number by some units of a typical one, and storing rounded it again.
std::vector<double> variances_of_stream(const Layer& layer, std::optional<DType> half) {
  if (!layer.block && !layer.ends) return {};
  const Tensor& stream = !layer.ends                  ? layer.X
                         : layer.ends->stream.empty() ? layer.ends->embed
                                                      : layer.ends->stream;
  const double unit = layer.dtype == DType::f64 ? 0x1p-50
                      : layer.ends              ? 0x1p-20
                                                : 0x1p-22,
               off = unit * size_of(stream), stored = storing_error(half);
  std::vector<double> variances = values_in_double(stream);
  for (double& a : variances) a = off * off + stored * stored * a * a;
  return variances;
}

} // namespace

double storing_error(std::optional<DType> half) {
  return half ? 0.6 * spacing_of(*half).half : 0;
}

/// The relative error that rounding usually causes in a stage; for exp and weights relative to each
/// number.
double Trials::usual_off(Stage stage, const RoundedSteps& steps) const {
  const Tensor value = value_of(layer_, stage, threads_);
  std::vector<double> variances = Variances(layer_, steps, threads_).of(stage);
  if (stage != Stage::exp && stage != Stage::weights) {
    const double size = size_of(value);
    return size > 0 ? root_of_mean(variances) / size : 0;
  }
  for (std::size_t i = 0; i < variances.size(); ++i) {
    const double y = value_at(value, i);
    variances[i] = y > 0 ? variances[i] / (y * y) : NAN;
  }
  return root_of_mean(variances);
}

/// The steps that the reference rounds. A stage that a change gives is off by a multiple of the
/// layer's own rounding.
RoundedSteps Trials::rounded_steps(const Layer& edited) const {
  RoundedSteps steps{.kept = target_.half.value_or(coarser_of(layer_.dtype, target_.stored)),
                     .off = off_};
  steps.coarsest = thresholds::nine_digits;
  steps.stream = variances_of_stream(layer_, target_.half);
  for (const Stage stage : inputs_) steps.off.try_emplace(stage, 0);
  const RoundedSteps own = steps;
  for (const Stage stage : edited.given_set)
    if (!layer_.has_given(stage) && contains(available_stages(layer_), stage))
      steps.off[stage] = thresholds::other_formula * usual_off(stage, own);
  return steps;
}

bool Trials::is_rounding(const Tensor& ours, const Changes& changes, const Tensor& theirs) const {
  if (ours.shape() != theirs.shape()) return false;
  if (!(agreement_of(ours, theirs, 0).error < thresholds::most_rounding)) return false;
  const auto within = if_allowed([&] {
    const Layer edited = changed(layer_, in_order(changes));
    const Rounded other{step_for(edited, target_.stage), theirs, target_.stored,
                        target_.resolution};
    // Numbers that differ only by their storing need no variances.
    if (judge_rounding(edited, other, ours, std::vector<double>(ours.count())).within) return true;
    const auto found = RoundingJudge(edited, rounded_steps(edited), threads_).judge(other, ours);
    return found && found->within;
  });
  return within.value_or(false);
}

double Trials::usual_rounding(const Changes& changes) const {
  const double size = size_of(target_.theirs);
  if (!(size > 0)) return 0;
  const auto usual = if_allowed([&] {
    const Layer edited = changed(layer_, in_order(changes));
    return root_of_mean(Variances(edited, rounded_steps(edited), threads_)
                            .of(step_for(edited, target_.stage))) /
           size;
  });
  return usual.value_or(0);
}

} // namespace mha
