#include <mha/diagnose/targets.hpp>

#include <mha/compare/diff.hpp>
#include <mha/compare/precision.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <array>

namespace mha {

namespace {

Target target_of(const Layer& layer, const ReferenceStage& known) {
  Target target;
  target.stage = known.stage;
  target.theirs =
      without_padding(with_given(layer, known.stage, known.value).given[index_of(known.stage)],
                      known.stage, layer.lengths);
  const bool gathered = known.stage == Stage::embed || known.stage == Stage::resid_pre ||
                        (known.stage == Stage::x && layer.settings.input_norm == InputNorm::none);
  if (is_short(known.stored)) target.half = known.stored;
  for (DType dtype : {DType::f16, DType::bf16}) // bfloat16 numbers may also be float16 numbers
    if (!is_short(known.stored) && !gathered && uses_type(target.theirs, dtype))
      target.half = dtype;
  target.stored = target.half.value_or(known.stored), target.resolution = known.resolution;
  target.tolerance = std::max({tolerance_of(layer.dtype), tolerance_of(known.stored),
                               target.half ? tolerance_of(*target.half) : 0});
  return target;
}

} // namespace

std::vector<Target> targets_of(const Layer& layer, const std::vector<ReferenceStage>& reference) {
  if (reference.empty()) fail("the reference has no stage to compare");
  std::vector<Target> targets;
  const StageSet available = available_stages(layer);
  std::string missing;
  for (const ReferenceStage& one : reference)
    if (one.mean_of_heads)
      continue; // no head's weights: changes cannot be judged by it
    else if (contains(available, one.stage))
      targets.push_back(target_of(layer, one));
    else // what is given is not enough to compute it
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name_of(one.stage));
  if (targets.empty() && missing.empty())
    fail("the reference has only the mean of the weights over the heads, which shows no cause: "
         "save the output, or each head's weights (average_attn_weights=False)");
  if (targets.empty())
    fail("nothing to compare: the reference has {}, which cannot be computed from what is given",
         missing);
  std::sort(targets.begin(), targets.end(),
            [&](const Target& a, const Target& b) { return comes_before(layer, a.stage, b.stage); });
  return targets;
}

std::optional<DType> short_type_of(std::vector<Target>& targets) {
  std::array<std::size_t, 2> count{};
  for (const Target& target : targets)
    if (target.half) ++count[target.half == DType::bf16 ? 1 : 0];
  std::optional<DType> half;
  if (2 * (count[0] + count[1]) > targets.size())
    half = count[1] >= count[0] ? DType::bf16 : DType::f16;
  for (Target& target : targets) target.half = half;
  return half;
}

namespace {

constexpr Stage of_norms[]{Stage::x, Stage::attn_add, Stage::mlp_x, Stage::mlp_add};

/// The change with this id that rounds to a type, with the fewest stages that include these.
std::optional<Change> rounding_to(DType dtype, std::string_view id, const StageSet& stages,
                                  const std::vector<Change>& changes) {
  const char* const name = dtype == DType::bf16 ? "bfloat16" : "float16";
  std::optional<Change> best;
  for (const Change& change : changes)
    if (change.id == id && change.did.ends_with(name) && (change.touches & stages) == stages &&
        (!best || change.touches.count() < best->touches.count()))
      best = change;
  return best;
}

} // namespace

ShortSteps short_steps_of(const std::vector<Target>& targets) {
  ShortSteps steps;
  for (const Target& target : targets)
    if (target.half &&
        (target.stage == Stage::mlp_act || std::ranges::count(of_norms, target.stage) > 0))
      steps[target.stage] = *target.half;
  return steps;
}

std::vector<Change> roundings_of(const ShortSteps& steps, const std::vector<Change>& changes,
                                 const Diagnosis& diagnosis) {
  std::vector<Change> list;
  if (const auto act = steps.find(Stage::mlp_act); act != steps.end())
    if (std::optional<Change> found = rounding_to(act->second, "mlp.rounded", {}, changes))
      list.push_back(std::move(*found));
  const bool shown = std::ranges::any_of(diagnosis.stages, [&](const Diagnosis::Compared& one) {
    return !steps.contains(one.stage) && !one.before.agrees && one.harmless.empty();
  });
  for (const DType dtype : {DType::bf16, DType::f16}) {
    StageSet norms;
    for (const auto& [stage, type] : steps)
      if (stage != Stage::mlp_act && type == dtype) norms.add(stage);
    if (!shown || !norms.any()) continue;
    if (std::optional<Change> found = rounding_to(dtype, "block_norm.rounded", norms, changes))
      list.push_back(std::move(*found));
  }
  return list;
}

} // namespace mha
