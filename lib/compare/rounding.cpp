#include <mha/compare/rounding.hpp>

#include <mha/compare/compare.hpp>
#include <mha/compare/diff.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// The stages that a port keeps, and so rounds. Softmax runs in float32 in all that are known.
constexpr Stage rounded_steps[] = {
    Stage::x,        Stage::q,        Stage::k,          Stage::v,      Stage::q_norm,
    Stage::k_norm,   Stage::q_rope,   Stage::k_rope,     Stage::k_all,  Stage::v_all,
    Stage::scores,   Stage::scaled,   Stage::capped,     Stage::biased, Stage::masked,
    Stage::weights,  Stage::head_out, Stage::concat,     Stage::output, Stage::attn_add,
    Stage::residual, Stage::mlp_x,    Stage::mlp_pre,    Stage::mlp_up, Stage::mlp_act,
    Stage::mlp_out,  Stage::mlp_add,  Stage::resid_post, Stage::final,  Stage::logits};

/// Maps of this many elements are held several times over.
constexpr std::size_t small_maps = std::size_t{1} << 25;

/// The layer with every tensor that its attention reads changed.
template <class F> Layer with_tensors(Layer layer, F change) {
  for (const TensorInfo& info : layer_tensors())
    if (Tensor& tensor = info.of(layer); !tensor.empty() && !info.in_layer.in_double)
      tensor = change(tensor);
  for (auto* broadcasts : {&layer.added, &layer.bias})
    for (Broadcast& broadcast : *broadcasts) broadcast.tensor = change(broadcast.tensor);
  for (Tensor& given : layer.given)
    if (!given.empty()) given = change(given);
  if (layer.ends) {
    auto ends = std::make_shared<ModelEnds>(*layer.ends);
    for (Tensor* tensor : {&ends->embed, &ends->stream})
      if (!tensor->empty()) *tensor = change(*tensor);
    layer.ends = std::move(ends);
  }
  return layer;
}

Layer rounded_layer(const Layer& layer, DType to) {
  return with_tensors(layer, [&](const Tensor& tensor) { return rounded_to(tensor, to); });
}

Layer in_float64(const Layer& layer) {
  Layer exact =
      with_tensors(layer, [](const Tensor& tensor) { return convert(tensor, DType::f64); });
  exact.dtype = DType::f64;
  return exact;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.count(); ++i) {
    const double difference = std::fabs(value_at(a, i) - value_at(b, i));
    if (std::isfinite(difference)) largest = std::max(largest, difference);
  }
  return largest;
}

/// The steps on the way to some stages: all that is computed before the last of them.
std::map<Stage, Tensor> rounded_values(Layer layer, const std::vector<Stage>& stages, DType to,
                                       std::size_t threads) {
  std::map<Stage, Tensor> values;
  const Stage last = *std::max_element(stages.begin(), stages.end());
  const auto wanted = [&](Stage stage) { return is_one_of(stage, stages); };
  const auto keep = [&](Stage stage) {
    values[stage] = trace(layer, {stage}, {}, threads).value(stage);
  };
  for (const StageInfo& info : mha::stages()) {
    const Stage stage = info.stage;
    if (stage > last) break;
    if (!contains(available_stages(layer), stage)) continue;
    const bool rounds = is_one_of(stage, rounded_steps);
    if (layer.has_given(stage) || !rounds || !has_step(layer, stage)) {
      if (wanted(stage)) keep(stage);
      continue;
    }
    const Tensor value = trace(layer, {stage}, {}, threads).value(stage);
    const Tensor rounded = convert(convert(value, to), layer.dtype);
    layer = with_given(std::move(layer), stage, rounded);
    if (wanted(stage)) values[stage] = rounded;
  }
  return values;
}

} // namespace

double root_mean_square(const Tensor& tensor) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = value_at(tensor, i);
    if (std::isfinite(value) && value > -1e4) sum += value * value, ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

std::map<Stage, double> rounding_errors(const Layer& layer, const std::vector<Stage>& wanted,
                                        DType to, std::size_t threads) {
  std::map<Stage, double> errors;
  std::vector<Stage> stages;
  for (Stage stage : wanted)
    if (contains(available_stages(layer), stage)) stages.push_back(stage);
  const bool in_own_type = coarser_of(to, layer.dtype) == layer.dtype;
  if (stages.empty() ||
      layer.dims.B * layer.dims.H * layer.dims.T * layer.dims.S_all > small_maps ||
      (in_own_type && layer.dtype == DType::f64))
    return errors;
  const Layer exact = in_own_type ? in_float64(layer) : layer;
  const Trace truth = trace(exact, stages, {}, threads);
  if (in_own_type) {
    const Trace ours = trace(layer, stages, {}, threads);
    for (Stage stage : stages)
      errors[stage] = largest_difference(ours.value(stage), truth.value(stage));
    return errors;
  }
  for (const auto& [stage, value] : rounded_values(rounded_layer(layer, to), stages, to, threads))
    errors[stage] = largest_difference(value, truth.value(stage));
  return errors;
}

} // namespace mha
