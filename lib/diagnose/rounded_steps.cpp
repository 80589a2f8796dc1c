#include <mha/diagnose/rounded_steps.hpp>

#include <algorithm>

namespace mha {

namespace {

constexpr Stage of_norms[]{Stage::x, Stage::attn_add, Stage::mlp_x, Stage::mlp_add};

/// The change of this name to a type, of as few stages as hold those.
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
