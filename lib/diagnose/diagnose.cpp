#include <mha/diagnose/diagnose.hpp>

#include <mha/compare/diff.hpp>
#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/targets.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <optional>
#include <set>

namespace mha {

namespace {

/// How the stages of a layer agree, all computed from its own inputs, in groups of limited memory.
std::vector<Agreement> agreements_of(const Layer& layer, const std::vector<Target>& targets,
                                     std::size_t threads) {
  constexpr std::size_t at_once = std::size_t{256} << 20;
  std::vector<Agreement> list;
  for (std::size_t first = 0; first < targets.size();) {
    std::vector<Stage> group;
    for (std::size_t bytes = 0; first + group.size() < targets.size();) {
      const Target& target = targets[first + group.size()];
      bytes += target.theirs.bytes();
      if (!group.empty() && bytes > at_once) break;
      group.push_back(step_for(layer, target.stage));
    }
    const std::vector<Tensor> values = values_of(layer, group, threads);
    for (const Tensor& value : values) {
      const Target& target = targets[first++];
      list.push_back(agreement_of(value, target.theirs, target.tolerance));
    }
  }
  return list;
}

/// Whether every score stage between the known stages and this one is known. Of unknown ones it is
/// not visible which a kernel rounds, or what it adds.
bool shows_scores(const Layer& layer, Stage stage, const std::vector<Target>& targets) {
  StageSet known;
  for (const Target& target : targets) known.add(target.stage);
  const StageSet before = ancestors_of(layer, stage, known);
  return stage != Stage::biased && std::ranges::none_of(before, [&](Stage one) {
           return one >= Stage::scores && one <= Stage::masked && !contains(known, one);
         });
}

/// How the stages agree without changes (`before`) and under a cause.
Diagnosis compared_under(const Cause& best, const Layer& layer, const std::vector<Target>& targets,
                         const std::vector<Agreement>& before, std::size_t threads) {
  Diagnosis diagnosis;
  const std::vector<Agreement> after =
      best.changes.empty() ? before : agreements_of(changed(layer, best.changes), targets, threads);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Diagnosis::Compared compared{targets[i].stage, before[i], after[i], {}};
    const bool open = std::ranges::count(best.unexplained, compared.stage) > 0;
    const auto judge = [&](const Changes& changes, Agreement& now) {
      const Trials trials(layer, {}, targets[i], changes, threads);
      now.agrees = trials.judged(trials.value()).agrees;
    };
    if (targets[i].half || (open && compared.after.agrees)) judge(best.changes, compared.after);
    // A step that differs when computed by itself is wrong even if the accumulated rounding would
    // allow the difference.
    if (targets[i].half && open && best.changes.empty() &&
        shows_scores(layer, compared.stage, targets))
      compared.after.agrees = false;
    if (best.changes.empty())
      compared.before = compared.after;
    else if (targets[i].half)
      judge({}, compared.before);
    const auto harmless = best.harmless.find(compared.stage);
    if (harmless != best.harmless.end()) compared.harmless = harmless->second;
    diagnosis.error_before = std::max(diagnosis.error_before, compared.before.error);
    if (compared.harmless.empty())
      diagnosis.error_after = std::max(diagnosis.error_after, compared.after.error);
    diagnosis.stages.push_back(std::move(compared));
  }
  return diagnosis;
}

/// Whether changes that do not explain everything still make some stage agree and spoil none. If
/// only a saved tensor is wrong, some change of a formula always comes a little closer, which means
/// nothing.
bool improves_some_stage(const std::vector<Diagnosis::Compared>& stages) {
  const auto becomes = [&](bool agreeing) {
    return std::ranges::any_of(stages, [&](const Diagnosis::Compared& one) {
      return one.before.agrees != agreeing && one.after.agrees == agreeing && one.harmless.empty();
    });
  };
  return becomes(true) && !becomes(false);
}

/// Whether changes that explain every step are misleading: together they increase the largest
/// error, spoil a stage that agreed, or do not improve a stage that is wrong.
bool misleads(const Diagnosis& diagnosis, bool half) {
  const double by_chance = half ? thresholds::by_chance_in_half : 1;
  double before = 0, after = 0;
  for (const Diagnosis::Compared& one : diagnosis.stages) {
    if (!one.harmless.empty()) continue;
    before = std::max(before, one.before.error), after = std::max(after, one.after.error);
    if (one.before.agrees && !one.after.agrees &&
        one.after.error > thresholds::spoilt * one.before.error)
      return true;
    if (!one.after.agrees && one.after.error > thresholds::still_wrong &&
        one.after.error >= one.before.error)
      return true;
  }
  return after > by_chance * before;
}

/// The first stage that a cause leaves unexplained.
std::optional<Stage> first_open(const Diagnosis& diagnosis, const Cause& cause) {
  // A later change may have explained the stage.
  for (const Diagnosis::Compared& one : diagnosis.stages)
    if (!one.after.agrees && std::ranges::count(cause.unexplained, one.stage) > 0) return one.stage;
  return std::nullopt;
}

/// The indices, in the axes that users see, of an element of a stage in the form of Layer::given.
std::vector<std::size_t> place_of(const Layer& layer, Stage stage, std::size_t flat) {
  const StageInfo& info = info_of(stage);
  std::vector<std::size_t> sizes{layer.dims.B}, at;
  for (Dim letter : info.letters) sizes.push_back(layer.dims.size_of(letter));
  const bool by_token = info.kind == Kind::token && sizes.size() == 4; // B, tokens, heads, width
  if (by_token) std::swap(sizes[1], sizes[2]);
  for (std::size_t i = sizes.size(); i-- > 0; flat /= sizes[i])
    at.insert(at.begin(), flat % sizes[i]);
  if (by_token) std::swap(at[1], at[2]);
  if (layer.settings.columns && info.kind != Kind::row) std::swap(at.end()[-1], at.end()[-2]);
  if (!layer.dims.batched) at.erase(at.begin());
  return at;
}

std::vector<std::string> ids_of(const Cause& cause) {
  std::vector<std::string> ids;
  for (const Change* change : cause.changes) ids.push_back(change->id);
  return ids;
}

/// Whether the reference rounded more than its stored numbers.
bool is_rounded(const Diagnosis& diagnosis, DType half) {
  return std::ranges::any_of(diagnosis.stages, [&](const Diagnosis::Compared& one) {
    return one.harmless.empty() &&
           one.before.error > thresholds::more_than_stored * storing_error(half);
  });
}

/// Records that only rounding differs.
void found_rounding(const Layer& layer, const std::vector<Target>& targets, DType half,
                    std::size_t threads, Diagnosis& diagnosis) {
  const Change rounding = precision_change(half);
  std::vector<Agreement> after;
  for (const Target& target : targets)
    after.push_back(agreement_of(value_of(changed(layer, {&rounding}), target.stage, threads),
                                 target.theirs, target.tolerance));
  diagnosis.error_after = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    diagnosis.stages[i].after = after[i];
    diagnosis.stages[i].after.agrees = true;
    diagnosis.error_after = std::max(diagnosis.error_after, after[i].error);
  }
  diagnosis.changes = {rounding};
}

/// Only the causes of another layer if they also explain this one, else all changes.
std::vector<Change> worth_trying(const Layer& layer, const std::vector<Target>& targets,
                                 std::vector<Change> all, const DiagnoseContext& context) {
  if (!context.likely || context.likely->empty()) return all;
  std::vector<Change> likely;
  for (const Change& known : *context.likely)
    for (const Change& change : all)
      if (change.id == known.id && change.did == known.did) likely.push_back(change);
  if (likely.size() != context.likely->size()) return all;
  Changes made;
  for (const Change& change : likely) made.push_back(&change);
  const auto agreements =
      if_allowed([&] { return agreements_of(changed(layer, made), targets, context.threads); });
  const bool explained = agreements && std::ranges::all_of(*agreements, [](const Agreement& one) {
                           return one.agrees || one.error < thresholds::likely_in_next_layer;
                         });
  return explained ? likely : all;
}

/// Adds the causes with the same numbers as the best one, and those that came closest.
void add_others(const std::vector<Cause>& found, const Cause& best,
                const std::vector<Cause>& runners_up, Diagnosis& diagnosis) {
  std::set<std::string> named;
  for (const Change* change : best.changes) named.insert(change->id);
  for (const Cause& other : found)
    if (&other != &found.front() && diagnosis.explained)
      for (const std::string& id : ids_of(other))
        if (named.insert(id).second) diagnosis.same_numbers.push_back(id);
  const bool in_part = !diagnosis.explained && !diagnosis.changes.empty();
  for (const Cause& close : runners_up) {
    if (in_part) break; // they concern the stage that was explained
    const std::vector<std::string> ids = ids_of(close);
    if (std::all_of(ids.begin(), ids.end(), [&](const auto& id) { return named.count(id) > 0; }))
      continue;
    const bool listed = std::any_of(diagnosis.runners_up.begin(), diagnosis.runners_up.end(),
                                    [&](const Diagnosis::RunnerUp& one) { return one.ids == ids; });
    if (listed || diagnosis.runners_up.size() == 3) continue;
    Message reproduction;
    for (const Change* change : close.changes) {
      if (!reproduction.empty() && !change->reproduction.empty()) reproduction += " ";
      reproduction += change->reproduction.text();
    }
    diagnosis.runners_up.push_back({ids, reproduction, close.error});
  }
}

Diagnosis explain(const Layer& the_layer, const std::vector<ReferenceStage>& reference,
                  const DiagnoseContext& context) {
  const std::size_t threads = context.threads;
  std::vector<Target> targets = targets_of(the_layer, reference);
  StageSet known;
  for (const Target& target : targets) known.add(target.stage);
  const Layer layer = plain_form(the_layer);
  const ShortSteps rounded = short_steps_of(targets);
  const std::optional<DType> half = short_type_of(targets);
  std::vector<Change> changes = changes_for({layer, known, context.fused, context.model});
  if (half) // a single rounded step is visible only if the others are not rounded
    std::erase_if(changes, [](const Change& change) { return change.id.ends_with(".rounded"); });
  const std::vector<Change> all = half ? std::vector<Change>{} : changes;
  CauseSearch search(layer, targets, worth_trying(layer, targets, std::move(changes), context),
                     threads, context.model);
  std::vector<Cause> found = search.find();
  const std::vector<Agreement> before = agreements_of(layer, targets, threads);
  Diagnosis diagnosis = compared_under(found.front(), layer, targets, before, threads);
  const auto is_none = [&](const Cause& cause) {
    if (cause.changes.empty()) return false;
    return first_open(diagnosis, cause) ? !improves_some_stage(diagnosis.stages)
                                        : misleads(diagnosis, half.has_value());
  };
  while (found.size() > 1 && is_none(found.front())) {
    found.erase(found.begin());
    diagnosis = compared_under(found.front(), layer, targets, before, threads);
  }
  Cause best = found.front();
  std::optional<Stage> unexplained = first_open(diagnosis, best);
  if (is_none(best)) {
    best = {};
    for (const Diagnosis::Compared& one : diagnosis.stages)
      if (!one.before.agrees) best.unexplained.push_back(one.stage);
    diagnosis = compared_under(best, layer, targets, before, threads);
    unexplained = first_open(diagnosis, best);
  }
  diagnosis.explained = !unexplained;
  diagnosis.rounded_to = half;
  if (half && diagnosis.explained && best.changes.empty() && is_rounded(diagnosis, *half)) {
    found_rounding(layer, targets, *half, threads, diagnosis);
    return diagnosis;
  }
  diagnosis.equal = diagnosis.explained && best.changes.empty();
  if (diagnosis.equal) diagnosis.changes = roundings_of(rounded, all, diagnosis);
  diagnosis.equal = diagnosis.equal && diagnosis.changes.empty();
  if (!diagnosis.explained) {
    diagnosis.unexplained = unexplained;
    for (const Diagnosis::Compared& one : diagnosis.stages)
      if (one.stage == *diagnosis.unexplained) {
        diagnosis.at =
            coordinates_of(the_layer, one.stage, place_of(the_layer, one.stage, one.after.worst));
        diagnosis.ours = one.after.ours, diagnosis.theirs = one.after.theirs;
      }
    diagnosis.hints = hints_for(changed(layer, best.changes), targets, *unexplained);
  }
  for (const Change* change : best.changes) diagnosis.changes.push_back(*change);
  add_others(found, best, search.runners_up(), diagnosis);
  return diagnosis;
}

} // namespace

Diagnosis diagnose(const Layer& layer, const std::vector<ReferenceStage>& reference, bool fused,
                   std::size_t threads) {
  return diagnose(layer, reference, {fused, threads, nullptr, nullptr});
}

namespace {

/// Explains a layer; of a whole model's layer, tensors that were captured at another step are
/// excluded first.
Diagnosis explain_but_captures(const Layer& layer, std::vector<ReferenceStage> reference,
                               const DiagnoseContext& context) {
  std::vector<OtherStep> captures;
  if (context.model && !layer.ends) captures = saved_apart(layer, reference, context.threads);
  for (const OtherStep& other : captures)
    std::erase_if(reference, [&](const ReferenceStage& one) { return one.stage == other.stage; });
  Diagnosis diagnosis = explain(layer, reference, context);
  while (context.model && !diagnosis.explained) {
    // If `final` was saved before the last norm, the head is judged by itself.
    auto known = std::ranges::find(reference, Stage::final, &ReferenceStage::stage);
    if (!layer.ends || known == reference.end())
      known = std::ranges::find(reference, *diagnosis.unexplained, &ReferenceStage::stage);
    if (known == reference.end() || (known->in_part && !layer.ends)) break;
    const Stage open = known->stage;
    const Tensor theirs = with_given(plain_form(layer), open, known->value).given[index_of(open)];
    const std::string other = other_step_of(layer, open, theirs, context.threads);
    if (other.empty()) break;
    captures.push_back({open, other});
    reference.erase(known);
    diagnosis = {};
    diagnosis.equal = diagnosis.explained = true; // if nothing is left to compare
    if (reference.empty()) break;
    diagnosis = explain(layer, reference, context);
  }
  diagnosis.captures = std::move(captures);
  return diagnosis;
}

} // namespace

Diagnosis diagnose(const Layer& layer, const std::vector<ReferenceStage>& reference,
                   const DiagnoseContext& context) {
  Diagnosis diagnosis = explain_but_captures(layer, reference, context);
  if (diagnosis.explained || !layer.settings.residual || layer.block) return diagnosis;
  // An implementation's output may already include the residual connection.
  std::vector<ReferenceStage> other = reference;
  ReferenceStage* output = nullptr;
  for (ReferenceStage& one : other) {
    if (one.stage == Stage::residual) return diagnosis;
    if (one.stage == Stage::output) output = &one;
  }
  if (!output) return diagnosis;
  output->stage = Stage::residual;
  Diagnosis as_residual = explain(layer, other, context);
  if (!as_residual.explained) return diagnosis;
  as_residual.reading = "the reference's output is this layer's residual: X + output";
  return as_residual;
}

std::pair<Diagnosis, Reference> best_reading(const Layer& layer,
                                             const std::vector<Reference>& readings,
                                             StagesOfReading compared,
                                             const DiagnoseContext& context) {
  std::optional<std::pair<Diagnosis, Reference>> best;
  for (const Reference& reading : readings) {
    if (best && best->first.explained && best->first.changes.size() <= 1) break;
    Diagnosis one = diagnose(layer, compared(reading), context);
    if (!best || (one.explained &&
                  (!best->first.explained || one.changes.size() < best->first.changes.size())))
      best.emplace(std::move(one), reading);
  }
  return std::move(*best);
}

std::pair<Diagnosis, Reference> best_reading(const LoadedLayer& loaded,
                                             const std::vector<Reference>& readings,
                                             std::size_t threads) {
  return best_reading(loaded.layer, readings,
                      [](const Reference& reading) { return reading.stages; },
                      {is_fused(loaded), threads, nullptr, nullptr});
}

bool is_fused(const LoadedLayer& loaded) {
  return find_named(loaded.origins, "W_qkv") != nullptr;
}

} // namespace mha
