#include <mha/compare/spread.hpp>

#include <mha/compare/compare.hpp>
#include <mha/compare/precision.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/forms.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace mha {

namespace {

bool is_map(Stage stage) {
  return is_of(stage, {Section::scores, Section::softmax});
}

} // namespace

std::pair<Spacing, Spacing> spacings_of(const RoundedSteps& steps) {
  const bool half = is_short(steps.kept);
  std::pair<Spacing, Spacing> found{spacing_of(steps.kept),
                                    spacing_of(half ? DType::f32 : steps.kept)};
  for (Spacing* one : {&found.first, &found.second})
    one->half = std::max(one->half, steps.coarsest);
  return found;
}

Variances::Variances(const Layer& layer, RoundedSteps by, std::size_t threads)
    : layer_(layer), by_(std::move(by)), threads_(threads) {
  std::tie(kept_, summed_) = spacings_of(by_);
}

/// Whether the kept type holds all numbers of a type.
bool Variances::holds(DType dtype) const {
  const Spacing its = spacing_of(dtype);
  return is_floating(dtype) && kept_.half <= its.half && kept_.smallest <= its.smallest;
}

/// Whether rounding to the kept type changes nothing.
bool Variances::is_exact(const Tensor& tensor) const {
  if (tensor.dtype() == by_.kept || holds(tensor.dtype())) return true;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (kept_.unless_held(value_at(tensor, i)) > 0) return false;
  return true;
}

void Variances::keep(StageNumbers& variance, const StageNumbers& y) const {
  if (variance.size() != y.size()) fail("{} variances of {} numbers", variance.size(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) variance[i] += kept_.of(y[i]);
}

/// Computes the token stages that `last` is made of.
void Variances::prepare(Stage last) {
  StageSet needed = ancestors_of(layer_, last, layer_.given_set);
  needed.add(last);
  std::vector<Stage> computed;
  const StageSet available = available_stages(layer_);
  for (const Stage stage : needed) {
    if (is_map(stage) || values_.contains(stage)) continue;
    if (layer_.has_given(stage))
      values_[stage] = values_in_double(layer_.given[index_of(stage)]);
    else if (contains(available, stage))
      computed.push_back(stage);
  }
  if (computed.empty()) return;
  const Trace kept = trace(layer_, computed, {}, threads_);
  for (const Stage stage : computed)
    values_[stage] = values_in_double(stored(stage, kept.value(stage), layer_.dims));
}

StageNumbers Variances::of(Stage stage) {
  if (layer_.has_given(stage)) return of_given(stage);
  prepare(stage);
  constexpr std::size_t small = std::size_t{1} << 20;
  if (is_map(stage) && count_of(layer_.shape_of(stage)) > small) return of_maps(stage);
  if (is_map(stage) && !variances_.contains(stage)) variances_[stage] = of_maps(stage);
  find(stage);
  return variances_.at(stage);
}

void Variances::find(Stage stage) {
  if (!variances_.contains(stage)) variances_[stage] = found(stage);
}

/// Adds to rows of `width` numbers what steps that are not stages round: each number by a few units
/// of its row.
StageNumbers Variances::in_inner_steps(StageNumbers variance, const StageNumbers& y,
                                       std::size_t width) const {
  constexpr double units = 4;
  StageNumbers steps(y.size());
  for (std::size_t first = 0; first < y.size(); first += width)
    variance_of_given(kept_, units * kept_.half, false, &y[first], width, &steps[first]);
  for (std::size_t i = 0; i < y.size(); ++i) variance[i] += steps[i];
  return variance;
}

/// The tokens' embedding for a layer is given, and another implementation makes it in steps.
StageNumbers Variances::of_layer_embedding() const {
  const Tensor& given = layer_.given[index_of(Stage::layer_embed)];
  return in_inner_steps(of_tensor(given), values_in_double(given), given.shape().back());
}

StageNumbers Variances::of_given(Stage stage) const {
  if (stage == Stage::layer_embed && !by_.off.contains(stage) && !by_.typed.contains(stage))
    return of_layer_embedding();
  const auto off = by_.off.find(stage), typed = by_.typed.find(stage);
  const Tensor& given = layer_.given[index_of(stage)];
  if (typed != by_.typed.end())
    return StageNumbers(given.count(), typed->second * typed->second / 3);
  if (off == by_.off.end()) return of_tensor(given);
  const StageNumbers y = values_in_double(given);
  StageNumbers variance(y.size());
  const std::size_t width = std::max<std::size_t>(given.shape().back(), 1);
  const bool powers = are_powers(stage, given);
  for (std::size_t first = 0; first < y.size(); first += width)
    variance_of_given(kept_, off->second, powers, &y[first], width, &variance[first]);
  return variance;
}

/// The variance of numbers that another implementation has with its own rounding.
StageNumbers Variances::of_tensor(const Tensor& tensor) const {
  if (holds(tensor.dtype())) return StageNumbers(tensor.count());
  StageNumbers variance = values_in_double(tensor);
  for (double& number : variance) number = kept_.unless_held(number);
  return variance;
}

/// The variance of the layer's input.
StageNumbers Variances::of_stream(const Tensor& stream) const {
  StageNumbers variance = of_tensor(stream);
  for (std::size_t i = 0; i < by_.stream.size(); ++i) variance[i] += by_.stream[i];
  return variance;
}

/// The variance of the embedding (tokens, positions and types, scaled or normed).
StageNumbers Variances::of_embedding() const {
  const Tensor& embed = layer_.ends->embed;
  return in_inner_steps(of_stream(embed), values_.at(Stage::embed), embed.shape().back());
}

/// The input of a step that has one.
Stage Variances::input(Stage stage) const {
  const std::vector<Stage> inputs = inputs_of(layer_, stage);
  return inputs.empty() ? Stage::embed : inputs.front();
}

StageNumbers Variances::found(Stage stage) {
  using enum Stage;
  if (layer_.has_given(stage)) return of_given(stage);
  for (const Stage before : inputs_of(layer_, stage))
    if (!is_map(before)) find(before);
  switch (stage) {
  case embed:
    return of_embedding();
  case resid_pre:
    return of_stream(layer_.X);
  case k_all:
  case v_all:
    return of_appended(stage);
  case head_out:
    return of_heads();
  case head_result:
    return of_results();
  case concat: // the same numbers
    return variances_.at(last_of_heads(layer_));
  case experts: // numbers that are not rounded
    return StageNumbers(values_.at(stage).size());
  default:
    break;
  }
  if (stage == x && layer_.settings.input_norm == InputNorm::none) return of_stream(layer_.X);
  StageNumbers variance = stage > concat ? around_attention(stage) : before_kept(stage);
  keep(variance, values_.at(stage));
  return variance;
}

/// The variance of a step before scores, without the rounding of its result.
StageNumbers Variances::before_kept(Stage stage) {
  using enum Stage;
  switch (stage) {
  case x: {
    const Settings& s = layer_.settings;
    return of_norm({s.input_norm, s.input_norm_eps, layer_.norm_weight, layer_.norm_bias},
                   values_in_double(layer_.X), of_stream(layer_.X));
  }
  case c_q:
  case c_kv:
    return of_compressed(stage);
  case k_pe:
    return of_product(values_.at(input(k_pe)), variances_.at(input(k_pe)), layer_.W_k_pe,
                      values_.at(k_pe));
  case gate:
    return of_product(values_.at(x), variances_.at(x), layer_.W_gate, values_.at(gate));
  case gated:
    return of_gate();
  case q:
  case k:
  case v:
    return of_projection(stage);
  case q_norm:
  case k_norm:
  case v_norm:
  case head_norm:
    return of_head_norm(stage);
  case q_rope:
  case k_rope:
    return of_rotation(stage);
  default:
    fail("{} is a map", name_of(stage));
  }
}

/// The same for steps from output on.
StageNumbers Variances::around_attention(Stage stage) {
  using enum Stage;
  if (stage == residual || stage == resid_post) return of_sum(stage);
  if (layer_.block && layer_.block->mixture && stage >= router_x && stage <= mlp_out)
    return of_mixture(stage);
  if (stage == mlp_act) return of_activation();
  if (stage == layer_add) return of_supplement();
  if (stage == logits) return of_logits();
  if (stage == final)
    return of_norm(layer_.ends->final, values_in_double(layer_.ends->stream),
                   of_stream(layer_.ends->stream));
  const StageNumbers &from = values_.at(input(stage)), &variance = variances_.at(input(stage));
  const auto product = [&](const Tensor& W) {
    return of_product(from, variance, W, values_.at(stage));
  };
  switch (stage) {
  case output:
    return product(layer_.W_o);
  case attn_add:
    return of_norm(layer_.block->post_attention_norm, from, variance);
  case mlp_x:
    return of_norm(layer_.block->pre_mlp_norm, from, variance);
  case mlp_pre:
    return product(layer_.block->mlp.in.W);
  case mlp_up:
    return product(layer_.block->mlp.up.W);
  case mlp_out:
    return product(layer_.block->mlp.out.W);
  default:
    return of_norm(layer_.block->post_mlp_norm, from, variance); // mlp_add
  }
}

} // namespace mha
