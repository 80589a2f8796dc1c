#include <mha/diagnose/trials.hpp>

#include <mha/compare/choices.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/schedule/weight.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The most bytes of kept stages; beyond it they are recomputed.
constexpr std::size_t most_kept = std::size_t{1} << 30;

/// The stages worth keeping: products with weights, and the steps from them to the scores.
constexpr Stage projected[]{Stage::x,      Stage::q,      Stage::k,      Stage::v,
                            Stage::q_norm, Stage::k_norm, Stage::q_rope, Stage::k_rope};

bool holds(const Changes& changes, const Change* change) {
  return std::find(changes.begin(), changes.end(), change) != changes.end();
}

StageSet touched_by(const Changes& changes) {
  StageSet set;
  for (const Change* change : changes) set |= change->touches;
  return set;
}

} // namespace

Changes sorted(Changes changes) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change* a, const Change* b) { return stage_of(*a) < stage_of(*b); });
  return changes;
}

Changes row_edits_of(Changes ordered) {
  std::erase_if(ordered, [](const Change* change) { return !change->edit_rows; });
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const Change* change) { return !change->undo; });
  return ordered;
}

void detach_kept_weights(Layer& layer) {
  layer.kept = KeptWeights::known_of(layer.kept);
}

Layer changed(Layer layer, const Changes& changes) {
  const Changes ordered = sorted(changes);
  if (!ordered.empty()) detach_kept_weights(layer);
  for (const Change* change : ordered) change->edit(layer);
  for (const Change* change : row_edits_of(ordered)) change->edit_rows(layer);
  return layer;
}

Trials::Trials(const Layer& layer, const std::map<Stage, Tensor>& inputs, Target target,
               Changes always, std::size_t threads, std::map<Stage, double> off)
    : layer_(layer),
      target_(std::move(target)),
      some_theirs_(target_.theirs),
      always_(std::move(always)),
      off_(std::move(off)),
      threads_(threads) {
  layer_.settings.origins.clear(); // each trial copies the layer and does not need them
  for (const auto& [stage, value] : inputs) {
    give(layer_, stage, value);
    inputs_.add(stage);
  }
  cone_ = possible_ancestors(target_.stage, inputs_);
  const std::size_t T = layer.dims.T;
  const StageSet of_queries = possible_descendants(StageSet{Stage::scores});
  // Not for latent attention, whose keys are computed from all rows of the queries' input, nor for
  // texts of several lengths, where some queries would be padding.
  if (T > thresholds::few_queries && layer.W_c_kv.empty() && layer.lengths.empty() &&
      contains(of_queries, target_.stage)) {
    rows_ = evenly(T, thresholds::screened_queries);
    some_theirs_ = some_queries(target_.stage, target_.theirs, rows_);
  }
  // After the last layer all tokens are independent.
  if (layer.ends && target_.stage != Stage::embed) {
    if (T > thresholds::few_queries && layer.lengths.empty())
      part_.tokens = evenly(T, thresholds::screened_queries);
    if (target_.stage == Stage::logits) part_.logits = some_logits(layer);
    some_theirs_ = part_of(target_.theirs, target_.stage, part_);
  }
  // A change of X affects every step, as X is also added back.
  std::erase_if(always_, [&](const Change* change) {
    return !concerns(*change) && !contains(change->touches, Stage::x);
  });
}

Changes Trials::in_order(const Changes& changes) const {
  Changes all = always_;
  for (const Change* change : changes)
    if (concerns(*change) && !holds(all, change)) all.push_back(change);
  return sorted(std::move(all));
}

/// The projected stages that differ under one change, in addition to those made always.
Trials::Values Trials::computed(const Change* change) const {
  const StageSet remade = change ? possible_descendants(change->touches) : StageSet::all();
  Layer edited = layer_;
  detach_kept_weights(edited);
  if (change)
    for (const auto& [stage, value] : kept_.at(nullptr))
      if (!contains(remade, stage)) give(edited, stage, value);
  for (const Change* one : in_order(change ? Changes{change} : Changes{}))
    if (!is_kept(*one, edited)) one->edit(edited);
  std::vector<Stage> wanted;
  const StageSet available = available_stages(edited);
  for (Stage stage : projected)
    if (contains(cone_, stage) && contains(remade, stage) && contains(available, stage) &&
        has_step(edited, stage))
      wanted.push_back(stage);
  Values values;
  if (wanted.empty()) return values;
  const std::vector<Tensor> list = values_of(edited, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) values.emplace(wanted[i], list[i]);
  return values;
}

/// The layer after the edits that apply to all queries at once. Kept stages are given: those of the
/// one change that affects them, or the layer's own if none does.
Layer Trials::prepared(const Changes& changes) const {
  Layer edited = layer_;
  detach_kept_weights(edited);
  if (const auto base = kept_.find(nullptr); base != kept_.end()) {
    StageSet all_changed = possible_descendants(touched_by(changes));
    for (const Change* change : always_) // it is redone for all that it touches, or not at all
      if (change->once && (change->touches & all_changed).any())
        all_changed |= possible_descendants(change->touches);
    for (const auto& [stage, value] : base->second)
      if (!contains(all_changed, stage)) give(edited, stage, value);
    for (const Change* change : changes) {
      const auto own = kept_.find(change);
      if (own == kept_.end() || change->once) continue;
      Changes others = changes;
      std::erase(others, change);
      const StageSet by_others = possible_descendants(touched_by(others));
      for (const auto& [stage, value] : own->second)
        if (!contains(by_others, stage) && contains(possible_descendants(change->touches), stage))
          give(edited, stage, value);
    }
  }
  for (const Change* change : in_order(changes))
    if (!is_kept(*change, edited)) change->edit(edited);
  return edited;
}

/// Whether kept stages, which are given, already include the whole effect of a change, which must
/// not be made twice.
bool Trials::is_kept(const Change& change, const Layer& edited) const {
  const bool in_base = kept_.count(nullptr) && holds(always_, &change);
  if (change.once && !in_base) return false;
  if ((!kept_.count(&change) && !in_base) || contains(change.touches, Stage::x)) return false;
  // Settings of later steps are still changed, because another change may recompute those steps.
  const StageSet concerned = change.touches & cone_;
  return std::all_of(stages().begin(), stages().end(), [&](const StageInfo& info) {
    if (!contains(concerned, info.stage)) return true;
    const bool product = info.stage == Stage::q || info.stage == Stage::k || info.stage == Stage::v;
    return (product || change.once) && edited.has_given(info.stage);
  });
}

Agreement Trials::judged(const Tensor& ours, const Changes& changes) const {
  Agreement result = agreement_of(ours, target_.theirs, target_.tolerance);
  result.agrees = result.error == 0 || is_rounding(ours, changes);
  return result;
}

/// The target in a layer. In a mixture the rounding of a short type decides between experts whose
/// scores are as good as equal, in the layer and, otherwise, under a change that only moves its
/// numbers: the reference's choice is taken.
Tensor Trials::target_in(Layer edited, std::size_t threads) const {
  const auto ours = [&](const Layer& one) { return value_of(one, target_.stage, threads); };
  static const StageSet after_mixture{Stage::mlp_out, Stage::mlp_add, Stage::resid_post};
  if (target_.half && contains(after_mixture, target_.stage))
    take_choices_of(target_.theirs, target_.stored, ours, edited);
  return ours(edited);
}

Tensor Trials::value(const Changes& changes) const {
  return target_in(changed(layer_, in_order(changes)), threads_);
}

Agreement Trials::whole(const Changes& changes) const {
  const std::optional<Tensor> ours = if_allowed([&] { return value(changes); });
  return ours ? judged(*ours, changes) : incomparable();
}

/// The part of the model's ends used in screening, to which the edits are applied. Edits of the
/// logits get the unchanged logits.
Layer Trials::screened_ends(const Changes& ordered) const {
  const EndSample part = part_.needed_for(ordered);
  Layer some = ends_of(layer_, part);
  const bool of_logits = std::ranges::all_of(ordered, &Change::other_logits);
  if (of_logits && !ordered.empty() && part.tokens == part_.tokens && !own_logits_.empty())
    give(some, Stage::logits, own_logits_);
  return some;
}

/// The target under changes, for the queries used in screening.
Tensor Trials::screened(const Changes& changes) const {
  if (is_of_end()) {
    const Changes ordered = in_order(changes);
    return value_of(changed(screened_ends(ordered), ordered), target_.stage);
  }
  Layer edited = prepared(changes);
  if (!rows_.empty()) edited = some_queries(edited, rows_, target_.stage);
  for (const Change* change : row_edits_of(in_order(changes)))
    if (!change->undo || rows_.empty()) change->edit_rows(edited);
  return rows_.empty() ? target_in(std::move(edited), 1) : value_of(edited, target_.stage);
}

Agreement Trials::screen(const Changes& changes) const {
  const auto agreement = if_allowed([&] {
    if (is_of_end() && part_.needed_for(in_order(changes)) != part_)
      return agreement_of(
          screened(changes),
          part_of(target_.theirs, target_.stage, part_.needed_for(in_order(changes))),
          target_.tolerance);
    Tensor theirs = some_theirs_;
    for (const Change* change : in_order(changes))
      if (change->undo && !rows_.empty())
        theirs = some_queries(target_.stage, change->undo(target_.theirs), rows_);
    return agreement_of(screened(changes), theirs, target_.tolerance);
  });
  return agreement.value_or(incomparable());
}

std::vector<Agreement> Trials::screen(const std::vector<Changes>& sets) {
  if (kept_.find(nullptr) == kept_.end()) kept_[nullptr] = computed(nullptr);
  if (!part_.logits.empty() && own_logits_.empty())
    own_logits_ = value_of(ends_of(layer_, {part_.tokens, {}}), Stage::logits, threads_);
  // Pairs share the results of single changes.
  Changes fresh;
  for (const Changes& set : sets)
    for (const Change* change : set)
      if (!kept_.count(change) && concerns(*change) &&
          std::find(fresh.begin(), fresh.end(), change) == fresh.end())
        fresh.push_back(change);
  std::size_t bytes = 0;
  for (const auto& [change, values] : kept_)
    for (const auto& [stage, value] : values) bytes += value.bytes();
  std::vector<Values> made(fresh.size());
  if (!rows_.empty() && bytes < most_kept)
    parallel_for(fresh.size(), threads_, [&](std::size_t i) { // impossible changes are tried again
      made[i] = if_allowed([&] { return computed(fresh[i]); }).value_or(Values());
    });
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    for (const auto& [stage, value] : made[i]) bytes += value.bytes();
    if (bytes < most_kept) kept_[fresh[i]] = std::move(made[i]);
  }
  std::vector<Agreement> results(sets.size());
  parallel_for(sets.size(), threads_, [&](std::size_t i) { results[i] = screen(sets[i]); });
  return results;
}

} // namespace mha
