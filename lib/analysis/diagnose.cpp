#include "analysis/diagnose.hpp"

#include "analysis/causes.hpp"
#include "analysis/diff.hpp"
#include "graph.hpp"
#include "hypotheses/edit.hpp"
#include "hypotheses/themes.hpp"

#include <algorithm>
#include <set>

namespace mha {

namespace {

/// Tokens as rows and a batch axis: the form in which stages are compared.
Layer plain_form(const Layer& layer) {
  Layer plain = layer;
  plain.settings.columns = false;
  plain.dims.batched = true;
  return plain;
}

Target target_of(const Layer& layer, const ReferenceStage& known) {
  return {known.stage, with_given(layer, known.stage, known.value).given[index_of(known.stage)],
          std::max(tolerance_of(layer.dtype), tolerance_of(known.stored)),
          known.stored == DType::bf16  ? 0x1p-9
          : known.stored == DType::f16 ? 0x1p-12
                                       : 0};
}

bool is_harmless(const Cause& cause, Stage stage) {
  return cause.harmless.count(stage) > 0;
}

/// Every stage of the reference, computed from the layer's own inputs under all the changes.
void compare_stages(const Layer& layer, const std::vector<Target>& targets, const Cause& best,
                    std::size_t threads, Diagnosis& diagnosis) {
  for (const Target& target : targets) {
    Diagnosis::Compared compared{target.stage, {}, {}, {}};
    const Trials trials(layer, {}, target, {}, threads);
    compared.before = trials.whole();
    compared.after = best.changes.empty() ? compared.before : trials.whole(best.changes);
    if (is_harmless(best, target.stage)) compared.harmless = best.harmless.at(target.stage);
    diagnosis.error_before = std::max(diagnosis.error_before, compared.before.error);
    if (compared.harmless.empty())
      diagnosis.error_after = std::max(diagnosis.error_after, compared.after.error);
    diagnosis.stages.push_back(std::move(compared));
  }
}

std::vector<std::string> ids_of(const Cause& cause) {
  std::vector<std::string> ids;
  for (const Change* change : cause.changes) ids.push_back(change->id);
  return ids;
}

} // namespace

Diagnosis diagnose(const Layer& the_layer, const std::vector<ReferenceStage>& reference, bool fused,
                   std::size_t threads) {
  if (reference.empty()) fail("the reference has no stage to compare");
  std::vector<Target> targets;
  StageSet known;
  const StageSet available = available_stages(the_layer);
  std::string lacking;
  for (const ReferenceStage& one : reference) {
    if (!contains(available, one.stage)) { // nothing says how to compute it
      lacking += fmt::format("{}{}", lacking.empty() ? "" : ", ", name_of(one.stage));
      continue;
    }
    targets.push_back(target_of(the_layer, one));
    known.set(index_of(one.stage));
  }
  if (targets.empty())
    fail("nothing to compare: the reference has {}, which nothing here says how to compute",
         lacking);
  std::sort(targets.begin(), targets.end(),
            [](const Target& a, const Target& b) { return a.stage < b.stage; });
  const Layer layer = plain_form(the_layer);
  CauseSearch search(layer, targets, changes_for({layer, known, fused}), threads);
  const std::vector<Cause> found = search.find();
  const Cause& best = found.front();

  Diagnosis diagnosis;
  compare_stages(layer, targets, best, threads, diagnosis);
  diagnosis.explained = best.unexplained.empty();
  diagnosis.equal = diagnosis.explained && best.changes.empty();
  if (!diagnosis.explained) diagnosis.unexplained = best.unexplained.front();
  for (const Change* change : best.changes) diagnosis.changes.push_back(*change);

  std::set<std::string> named;
  for (const Change* change : best.changes) named.insert(change->id);
  for (const Cause& other : found) // as few changes, the same numbers
    if (&other != &best && diagnosis.explained)
      for (const std::string& id : ids_of(other))
        if (named.insert(id).second) diagnosis.same_numbers.push_back(id);
  for (const Cause& close : search.runners_up()) {
    const std::vector<std::string> ids = ids_of(close);
    if (std::all_of(ids.begin(), ids.end(), [&](const auto& id) { return named.count(id) > 0; }))
      continue;
    const bool listed = std::any_of(diagnosis.runners_up.begin(), diagnosis.runners_up.end(),
                                    [&](const Diagnosis::RunnerUp& one) { return one.ids == ids; });
    if (listed || diagnosis.runners_up.size() == 3) continue;
    std::string option;
    for (const Change* change : close.changes)
      option += change->option.empty() || option.empty() ? change->option : " " + change->option;
    diagnosis.runners_up.push_back({ids, option, close.error});
  }
  return diagnosis;
}

} // namespace mha
