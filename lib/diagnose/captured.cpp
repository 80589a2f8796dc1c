#include <mha/diagnose/captured.hpp>

#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha {

namespace {

/// The steps that captures confuse: rows of the stream, and of the feed-forward's width.
constexpr Stage confused[]{Stage::resid_pre, Stage::x,        Stage::concat,  Stage::output,
                           Stage::attn_add,  Stage::residual, Stage::mlp_x,   Stage::mlp_pre,
                           Stage::mlp_up,    Stage::mlp_act,  Stage::mlp_out, Stage::mlp_add,
                           Stage::resid_post};

/// A number that is another step's differs by its rounding only.
constexpr double same_step = 1e-4;

struct NamedStep {
  std::string name;
  Tensor value;
};

std::vector<NamedStep> steps_of(const Layer& layer, Stage but, const Shape& shape,
                                std::size_t threads) {
  std::vector<Stage> stages;
  for (Stage stage : confused)
    if (stage != but && has_step(layer, stage) && contains(available_stages(layer), stage) &&
        given_shape(layer, stage) == shape)
      stages.push_back(stage);
  const std::vector<Tensor> values = values_of(layer, stages, threads);
  std::vector<NamedStep> steps;
  for (std::size_t i = 0; i < stages.size(); ++i)
    steps.push_back({std::string(name_of(stages[i])), values[i]});
  return steps;
}

/// ‖a + sign · b − theirs‖ / ‖theirs‖, given up early where the first numbers are far apart.
double distance_of_sum(const Tensor& a, const Tensor& b, double sign, const Tensor& theirs) {
  constexpr std::size_t looked_at_first = 256;
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < theirs.count(); ++i) {
    const double r = value_at(theirs, i), difference = value_at(a, i) + sign * value_at(b, i) - r;
    if (!std::isfinite(difference)) return 1;
    apart += difference * difference, size += r * r;
    if (i == looked_at_first && apart > 1e-2 * size) return 1;
  }
  return size > 0 ? std::sqrt(apart / size) : 1;
}

std::string sum_that_is(const std::vector<NamedStep>& steps, const Tensor& theirs) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t j = 0; j < steps.size(); ++j) {
      if (i == j) continue;
      if (j > i && distance_of_sum(steps[i].value, steps[j].value, 1, theirs) < same_step)
        return fmt::format("{} + {}", steps[i].name, steps[j].name);
      if (distance_of_sum(steps[i].value, steps[j].value, -1, theirs) < same_step)
        return fmt::format("{} − {}", steps[i].name, steps[j].name);
    }
  return "";
}

} // namespace

std::string other_step_of(const Layer& the_layer, Stage stage, const Tensor& theirs,
                          std::size_t threads) {
  if (the_layer.ends) return "";
  Layer layer = the_layer;
  layer.settings.columns = false, layer.dims.batched = true;
  const double tolerance = tolerance_of(layer.dtype);
  std::vector<NamedStep> steps = steps_of(layer, stage, theirs.shape(), threads);
  for (const NamedStep& step : steps)
    if (const Agreement found = agreement_of(step.value, theirs, tolerance);
        found.agrees || found.error < same_step)
      return step.name;
  if (contains(available_stages(layer), stage))
    steps.push_back({std::string(name_of(stage)), value_of(layer, stage, threads)});
  return sum_that_is(steps, theirs);
}

std::string OtherStep::sentence() const {
  return fmt::format("{} was saved from another step: it is {} here", name_of(stage), is);
}

} // namespace mha
