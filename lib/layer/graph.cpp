#include <mha/layer/graph.hpp>

#include <mha/layer/other_inputs.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

bool has_step(const Layer& layer, Stage stage) {
  if (layer.has_given(stage)) return true;
  if (is_of_model(stage)) return layer.ends && layer.ends->has(stage);
  if (layer.block || is_stream(stage))
    if (const std::optional<bool> there = has_step_around(layer.block.get(), stage)) return *there;
  const auto is_step = info_of(stage).is_step;
  return !is_step || is_step(layer);
}

namespace {

using enum Stage;

/// Whether `holds` is true of every input of a stage; it is called up to the first of which it is
/// not. An input of several steps that the layer does not have comes several times.
template <class Holds> bool all_inputs(const Layer& layer, Stage stage, const Holds& holds) {
  for (const Stage input : steps_before(layer, stage))
    if (has_step(layer, input) ? !holds(input) : !all_inputs(layer, input, holds)) return false;
  return true;
}

} // namespace

std::vector<Stage> inputs_of(const Layer& layer, Stage stage) {
  std::vector<Stage> inputs;
  all_inputs(layer, stage, [&](Stage input) {
    add_once(inputs, input);
    return true;
  });
  return inputs;
}

StageSet ancestors_of(const Layer& layer, Stage stage, const StageSet& up_to) {
  StageSet found;
  const auto add = [&](const auto& self, Stage one) -> void {
    for (const Stage input : inputs_of(layer, one)) {
      if (contains(found, input)) continue;
      found.add(input);
      if (!contains(up_to, input)) self(self, input);
    }
  };
  add(add, stage);
  return found;
}

namespace {

/// What any layer computes a stage from.
StageSet possible_inputs(Stage stage) {
  StageSet inputs;
  for (const Stage input : info_of(stage).inputs) inputs.add(input);
  for (const OtherInputs& other : other_inputs())
    for (const Stage input : other.inputs)
      if (other.stage == stage) inputs.add(input);
  return inputs;
}

} // namespace

StageSet possible_ancestors(Stage stage, const StageSet& given) {
  StageSet found;
  const auto add = [&](const auto& self, Stage one) -> void {
    if (contains(found, one)) return;
    found.add(one);
    for (const Stage input : possible_inputs(one))
      if (!contains(given, input)) self(self, input);
  };
  add(add, stage);
  return found;
}

StageSet possible_descendants(StageSet of) {
  for (const StageInfo& info : stages()) // in the order of the computation
    for (const Stage input : possible_inputs(info.stage))
      if (contains(of, input)) of.add(info.stage);
  return of;
}

bool follows(Stage stage, Stage other) {
  return contains(possible_descendants({other}), stage);
}

StageSet given_by_model(const Layer& layer) {
  StageSet stages;
  if (has_step(layer, layer_embed)) stages.add(layer_embed);
  if (layer.has_given(k_rope) && !has_step(layer, k)) stages.add(k_rope);
  if (layer.has_given(v_norm) && !has_step(layer, v)) stages.add(v_norm);
  return stages;
}

namespace {

/// Whether a stage after W_o lacks it: the heads side by side could be taken for the output, but
/// one that is given has another width.
bool lacks_output_projection(const Layer& layer, Stage stage) {
  return (stage == Stage::head_result || stage == Stage::output) && layer.W_o.empty() &&
         layer.dims.d_out != layer.dims.H * layer.dims.d_v;
}

/// What q, k or v is made of.
struct Input {
  std::string_view name; ///< "" if it is not there
  std::size_t rows = 0, cols = 0;
};

Input input_of(const Layer& layer, Stage stage) {
  const bool is_k = stage == Stage::k;
  if (const Tensor& own = is_k ? layer.X_k : layer.X_v; stage != Stage::q && !own.empty())
    return {is_k ? "X_k" : "X_v", own.shape()[own.rank() - 2], own.shape().back()};
  const Dims& dims = layer.dims;
  if (stage == Stage::q && has_step(layer, Stage::c_q)) return {"c_q", dims.T, dims.r_q};
  if (stage != Stage::q && has_step(layer, Stage::c_kv)) return {"c_kv", dims.T, dims.r_kv};
  if (!layer.has_given(Stage::x) && layer.X.empty()) return {};
  return {layer.has_given(Stage::x) ? "x" : "X", dims.T, dims.d_model};
}

/// Whether X does not split into the heads of q, k or v.
bool lacks_heads(const Layer& layer, Stage stage) {
  return stage == Stage::v ? layer.dims.d_v == 0
                           : (stage == Stage::q || stage == Stage::k) && layer.dims.d_k == 0;
}

/// Whether q, k or v would have to be made of an input that does not fit: other tokens than it has,
/// or no W to change its width. Widths are checked where a layer is assembled only as far as its
/// first steps are not replaced by stages that are given.
bool lacks_fitting_input(const Layer& layer, Stage stage) {
  if (stage != Stage::q && stage != Stage::k && stage != Stage::v) return false;
  const Input input = input_of(layer, stage);
  if (input.name.empty()) return false;
  const Dims& dims = layer.dims;
  const Tensor& W = stage == Stage::q ? layer.W_q : stage == Stage::k ? layer.W_k : layer.W_v;
  const std::size_t width = stage == Stage::q   ? dims.H * dims.d_k
                            : stage == Stage::k ? dims.H_kv * dims.d_k
                                                : dims.H_kv * dims.d_v;
  const bool fits =
      W.empty() ? input.cols == width : W.shape()[0] == input.cols && W.shape()[1] == width;
  return !fits || input.rows != (stage == Stage::q ? dims.T : dims.S);
}

} // namespace

bool lacks_scale(const Layer& layer) {
  return !layer.has_given(Stage::scaled) && !std::isfinite(layer.scale());
}

Message why_no_scale(const Layer& layer) {
  const bool d_k = layer.settings.scale == ScaleKind::d_k;
  return message("scaled and what follows cannot be computed: scale is 1/√{0}, but {0} is 0 or "
                 "it is not known; give <scale> a number",
                 d_k ? "d_k" : "d_model");
}

bool can_compute(const Layer& layer, Stage stage, const StageSet& available) {
  switch (stage) {
  case Stage::x:
    return !layer.X.empty();
  case Stage::k:
    if (!layer.X_k.empty()) return true;
    break;
  case Stage::v:
    if (!layer.X_v.empty()) return true;
    break;
  case Stage::residual:
  case Stage::resid_pre:
    if (layer.X.empty()) return false;
    break;
  case Stage::layer_embed: // of the tokens, which a layer does not have
    return false;
  default:
    break;
  }
  return has_step(layer, stage) &&
         all_inputs(layer, stage, [&](Stage input) { return contains(available, input); });
}

StageSet available_stages(const Layer& layer) {
  StageSet available;
  const auto add = [&](const StageInfo& info) {
    if (layer.has_given(info.stage) ||
        (!lacks_heads(layer, info.stage) && can_compute(layer, info.stage, available) &&
         !lacks_output_projection(layer, info.stage) && !lacks_fitting_input(layer, info.stage) &&
         !(info.stage == Stage::scaled && lacks_scale(layer))))
      available.add(info.stage);
  };
  for (const StageInfo& info : stages()) add(info_of(in_turn(layer, info.stage)));
  // A given concatenation can be split again.
  if (layer.has_given(Stage::concat) && layer.dims.H > 0) {
    available.add(last_of_heads(layer));
    if (!lacks_output_projection(layer, Stage::head_result)) available.add(Stage::head_result);
  }
  return available;
}

void patch_given_head_result(Layer& layer) {
  constexpr Stage stage = Stage::head_result;
  if (!layer.has_given(stage) || layer.has_given(Stage::output)) return;
  Layer without = layer;
  without.given_set.remove(stage);
  const StageSet available = available_stages(without);
  if (!contains(available, stage) || !contains(available, Stage::output)) return;
  ResolvedEdit patch;
  patch.stage = stage;
  patch.value = layer.given[index_of(stage)];
  const Shape& shape = patch.value.shape();
  patch.strides = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  patch.text = "head_result";
  without.given[index_of(stage)] = {};
  without.patches.add(std::move(patch));
  layer = std::move(without);
}

namespace {

/// The tensors to ask for where a stage cannot be computed: the nearest projections, or X.
void collect_missing(const Layer& layer, Stage stage, const StageSet& available,
                     StageSet& missing) {
  for (Stage input : inputs_of(layer, stage)) {
    if (contains(available, input)) continue;
    const bool projection = input == Stage::q || input == Stage::k || input == Stage::v;
    if (projection)
      missing.add(input);
    else
      collect_missing(layer, input, available, missing);
  }
}

/// Returns why a stage is not among those available.
[[noreturn]] void fail_unavailable(const Layer& layer, Stage stage, const StageSet& available) {
  const StageInfo& info = info_of(stage);
  if (!has_step(layer, stage))
    fail("this layer has no {}: a layer has it {}; this one has {}", info.name, info.part,
         joined_names(available));
  if (lacks_output_projection(layer, stage))
    fail(
        "{} cannot be computed: W_o is missing: {} heads of {} values side by side, but the output "
        "that is given is {} wide",
        info.name, layer.dims.H, layer.dims.d_v, layer.dims.d_out);
  if (lacks_fitting_input(layer, stage)) {
    const Input input = input_of(layer, stage);
    fail(
        "{} cannot be computed: {} has {} of {}, and that does not fit; give {} or W_{}, or fix {}",
        info.name, input.name, counted(input.rows, "tokens"), counted(input.cols, "numbers"),
        info.name, info.name, input.name);
  }
  if (lacks_scale(layer) && contains(available, Stage::scores) && follows(stage, Stage::scaled))
    fail("{}: {}", info.name, why_no_scale(layer));
  StageSet missing;
  collect_missing(layer, stage, available, missing);
  fail("{} cannot be computed: {} is missing; this layer has {}{}", info.name,
       missing.none() ? "X" : joined_names(missing),
       available.none() ? "no stages" : joined_names(available), layer.missing_X);
}

/// Throws Error where a derived stage is not of this layer, or not made of what it has.
void require_derived(const Layer& layer, Stage stage, const StageSet& available) {
  for (const Stage input : inputs_of(layer, stage)) require_stage(layer, input, available);
  if (const std::string why = why_not_derived(layer, stage, available); !why.empty())
    fail("{}{}", why,
         why.starts_with("a rollout") ? message(": choose the layers in this order with <layer>")
                                      : Message());
}

} // namespace

std::string why_not_derived(const Layer& layer, Stage stage, const StageSet& available) {
  const Dims& dims = layer.dims;
  for (const Stage input : inputs_of(layer, stage))
    if (!contains(available, input))
      return fmt::format("{} is made of {}, which this layer has not", name_of(stage),
                         name_of(input));
  if (layer.settings.columns)
    return fmt::format("{}: tokens are rows here, and the layer's are columns", name_of(stage));
  if ((stage == Stage::value_norms || stage == Stage::value_norms_sum) &&
      last_of_heads(layer) != Stage::head_out)
    return fmt::format("{} is of values that W_o multiplies: here {} is between", name_of(stage),
                       name_of(last_of_heads(layer)));
  if (stage != Stage::rollout) return "";
  if (dims.T != dims.S_all || !layer.X_k.empty())
    return fmt::format("rollout is of self-attention, whose keys are the queries' tokens: {} "
                       "queries, {} keys",
                       dims.T, dims.S_all);
  if (layer.misses_rollout && layer.rollout_before.empty())
    return "a rollout begins at layer 0 and goes from layer to layer";
  return "";
}

void require_stage(const Layer& layer, Stage stage) {
  require_stage(layer, stage, available_stages(layer));
}

void require_stage(const Layer& layer, Stage stage, const StageSet& available) {
  if (is_derived(stage)) return require_derived(layer, stage, available);
  if (!contains(available, stage)) fail_unavailable(layer, stage, available);
}

} // namespace mha
