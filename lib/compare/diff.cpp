#include <mha/compare/diff.hpp>

#include <mha/compare/other_readings.hpp>
#include <mha/compare/precision.hpp>
#include <mha/compare/rounding.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// How much larger a later step's error must be for an earlier error to count as rounding.
constexpr double much_larger = 20;

/// The value of one stage of an edited layer, if it can be computed.
std::optional<Tensor> value_in(const Layer& layer, Stage stage, std::size_t threads) {
  if (!contains(available_stages(layer), stage)) return std::nullopt;
  return trace(layer, {stage}, {}, threads).value(stage);
}

class Differ {
public:
  Differ(const Layer& layer, const Reference& reference, const Tolerances& tolerances,
         std::size_t threads, const PassContext* pass)
      : layer_(layer),
        reference_(reference),
        tolerances_(tolerances),
        threads_(threads),
        pass_(pass) {}

  Diff run() {
    compare_all();
    allow_rounding();
    measure_pass();
    judges_.clear();
    if (!pass_ || !pass_->whole)
      for (StageDiff& row : result_.stages) judge_by_itself(row);
    for (StageDiff& row : result_.stages) {
      if (row.difference.within) continue;
      if (row.pass_rounding)
        row.own = false;
      else if (!follows_earlier_layers() && !row.own)
        recompute(row);
    }
    choose_first();
    return std::move(result_);
  }

private:
  void compare_all();
  void allow_rounding();
  void choose_first();
  void recompute(StageDiff& row);
  void judge_by_itself(StageDiff& row);
  ShownRoundingJudge& own_judge(const StageDiff& row);
  std::optional<Difference> without_rounding(const StageDiff& row, Difference with,
                                             ShownRoundingJudge& judge, const Tensor& ours,
                                             double& allowed,
                                             const GrownRounding* grown = nullptr) const;
  std::map<Stage, Tensor> values_of(const std::vector<Stage>& stages) const;
  RoundedSteps steps_of(const StageDiff& row, bool from_theirs) const;
  double size_of_error(const StageDiff& row) const;
  Tolerance tolerance_for(const ReferenceStage& theirs, DType coarser) const;
  Difference against(const StageDiff& row, const Tensor& ours, Tolerance tolerance) const;
  DType precision_of_chain(Stage stage) const;
  bool follows_own_settings(Stage stage) const;
  FromExact from_exact(const StageDiff& row, double ours, const Tensor& exact);
  void measure_pass();
  std::map<Stage, Tensor> exact_stages() const;
  bool follows_earlier_layers() const { return pass_ && pass_->earlier; }

  const Layer& layer_;
  const Reference& reference_;
  const Tolerances& tolerances_;
  std::size_t threads_;
  const PassContext* pass_;
  std::map<DType, ShownRoundingJudge>
      judges_;                    ///< of the layer's own steps, by the type they are kept in
  std::map<Stage, Tensor> exact_; ///< float64 values, if every stage is compared with them
  Diff result_;
};

/// The coarsest type of a reference's stage and of the stages it was computed from: a step stored
/// in float32 inherits the rounding of bfloat16 inputs. Stages that are gathered, not computed (the
/// stream before the first layer, x of a layer without a norm) have the checkpoint's precision, not
/// the computation's. Row values are float32 in kernels of every type; if queries and keys were
/// computed, the stages saved after them show their precision.
DType Differ::precision_of_chain(Stage stage) const {
  StageSet chain = ancestors_of(layer_, stage);
  if (info_of(stage).kind == Kind::row && contains(chain, Stage::q) && !layer_.has_given(Stage::q))
    chain.add(Stage::head_out), chain.add(Stage::output);
  DType coarsest = reference_.find(stage)->stored;
  for (const ReferenceStage& theirs : reference_.stages)
    if (contains(chain, theirs.stage) &&
        (theirs.stage == Stage::x ? layer_.settings.input_norm != InputNorm::none
                                  : follows(theirs.stage, Stage::x)))
      coarsest = coarser_of(coarsest, theirs.stored);
  return coarsest;
}

/// The stage's tolerance, plus the error of typed numbers.
Tolerance Differ::tolerance_for(const ReferenceStage& theirs, DType coarser) const {
  if (info_of(theirs.stage).kind == Kind::row) coarser = coarser_of(layer_.dtype, theirs.stored);
  Tolerance tolerance = tolerances_.of(theirs.stage, coarser);
  if (!tolerances_.asked_for(theirs.stage)) tolerance.absolute += theirs.resolution;
  return tolerance;
}

/// Compares a value of the stage with the reference's.
Difference Differ::against(const StageDiff& row, const Tensor& ours, Tolerance tolerance) const {
  const ReferenceStage& theirs = *row.reference;
  Difference found =
      compare(layer_, row.stage, as_saved(theirs, ours), theirs.value, tolerance, theirs.stored);
  if (theirs.mean_of_heads) found.worst_head.reset();
  return found;
}

void Differ::compare_all() {
  Comparison comparison(layer_);
  for (const ReferenceStage& theirs : reference_.stages) {
    if (!may_be_compared(layer_, theirs.stage)) {
      result_.not_compared.emplace_back(name_of(theirs.stage));
      continue;
    }
    StageDiff row;
    row.stage = theirs.stage;
    row.reference = &theirs;
    row.precision = precision_of_chain(theirs.stage);
    row.tolerance = tolerance_for(theirs, coarser_of(layer_.dtype, row.precision));
    if (!theirs.mean_of_heads) comparison.add(theirs, row.tolerance);
    result_.stages.push_back(std::move(row));
  }
  std::ranges::stable_sort(result_.stages, [&](const StageDiff& a, const StageDiff& b) {
    return comes_before(layer_, a.stage, b.stage);
  });
  Comparison own(layer_); // ours with float64, in the same computation
  if (pass_ && pass_->every_stage) exact_ = exact_stages();
  for (const auto& [stage, exact] : exact_) own.add({stage, exact, DType::f64, "float64", ""}, {});
  Several both;
  both.add(comparison), both.add(own);
  (pass_ ? pass_->compute : compute)(layer_, make_plan(layer_, both.wants()), both, threads_);
  for (StageDiff& row : result_.stages) {
    row.difference = row.reference->mean_of_heads
                         ? against(row, *value_in(layer_, row.stage, threads_), row.tolerance)
                         : comparison.of(row.stage);
    if (row.stage == Stage::resid_pre && pass_ && pass_->has_agreed(row.reference->value))
      row.difference.within = true;
    if (const auto exact = exact_.find(row.stage);
        exact != exact_.end() && !row.reference->mean_of_heads)
      row.exact = from_exact(row, own.of(row.stage).max_abs, exact->second);
  }
}

/// Our distance from float64, and the reference's.
FromExact Differ::from_exact(const StageDiff& row, double ours, const Tensor& exact) {
  FromExact found;
  found.ours = ours;
  found.theirs =
      compare(layer_, row.stage, exact, row.reference->value, {}, row.reference->stored).max_abs;
  std::optional<GrownRounding> grown;
  if (pass_->whole) grown = {*value_in(layer_, row.stage, threads_), exact};
  const std::optional<RoundingVerdict> verdict =
      own_judge(row).judge(*row.reference, exact, grown ? &*grown : nullptr);
  found.ratio = verdict ? verdict->farthest : found.theirs > 0 ? HUGE_VAL : 0;
  found.precision = coarser_of(layer_.dtype, row.precision);
  found.is_rounding = found.ratio <= 1 || (verdict && verdict->within);
  return found;
}

/// The roundings of implementations in the precision of the stage's reference. If the stage is
/// computed from the reference's own stages, those were rounded when they were saved or typed.
RoundedSteps Differ::steps_of(const StageDiff& row, bool from_theirs) const {
  RoundedSteps steps{.kept = coarser_of(layer_.dtype, row.precision)};
  for (const Stage stage : row.from) {
    if (!from_theirs) break;
    steps.off[stage] = 0;
    if (const double typed = reference_.find(stage)->resolution; typed > 0)
      steps.typed[stage] = typed;
  }
  return steps;
}

ShownRoundingJudge& Differ::own_judge(const StageDiff& row) {
  RoundedSteps steps = steps_of(row, false);
  const DType kept = steps.kept;
  return judges_.try_emplace(kept, layer_, std::move(steps), threads_).first->second;
}

/// The part of a difference that exceeds what rounding allows each number; nothing if rounding
/// cannot be judged. `allowed` becomes the most that a number is allowed.
std::optional<Difference> Differ::without_rounding(const StageDiff& row, Difference with,
                                                   ShownRoundingJudge& judge, const Tensor& ours,
                                                   double& allowed,
                                                   const GrownRounding* grown) const {
  const Tensor saved = as_saved(*row.reference, ours);
  const std::optional<RoundingVerdict> verdict = judge.judge(*row.reference, saved, grown);
  if (!verdict) return std::nullopt;
  const bool is_allowed_some = !verdict->allowed.empty();
  if (is_allowed_some)
    with = compare(layer_, row.stage, saved, row.reference->value, row.tolerance,
                   row.reference->stored, verdict->allowed);
  if (row.reference->mean_of_heads) with.worst_head.reset();
  with.within = with.within || verdict->within;
  for (std::size_t i = 0; is_allowed_some && i < verdict->allowed.count(); ++i)
    allowed = std::max(allowed, static_cast<double>(verdict->allowed.as<float>()[i]));
  return with;
}

/// The layer's values of these stages, without unavailable and large ones.
std::map<Stage, Tensor> Differ::values_of(const std::vector<Stage>& stages) const {
  constexpr std::size_t most_together = std::size_t{1} << 26;
  const StageSet available = available_stages(layer_);
  std::vector<Stage> small;
  std::size_t count = 0;
  for (const Stage stage : stages)
    if (contains(available, stage)) {
      count += count_of(layer_.shape_of(stage));
      if (count <= most_together) small.push_back(stage);
    }
  std::map<Stage, Tensor> values;
  if (small.empty()) return values;
  const Trace kept = trace(layer_, small, {}, threads_);
  for (const Stage stage : small) values.emplace(stage, kept.value(stage));
  return values;
}

/// Subtracts allowed rounding from the differences of stages out of tolerance, unless the caller
/// asked for a tolerance.
void Differ::allow_rounding() {
  std::vector<StageDiff*> rows;
  std::vector<Stage> stages;
  for (StageDiff& row : result_.stages) {
    if (row.difference.within || tolerances_.asked_for(row.stage) || layer_.has_given(row.stage) ||
        !may_be_rounding(row.difference, coarser_of(layer_.dtype, row.precision)))
      continue;
    rows.push_back(&row), stages.push_back(row.stage);
  }
  const std::map<Stage, Tensor> together = values_of(stages);
  for (StageDiff* row : rows) {
    const auto at = together.find(row->stage);
    const std::optional<Tensor> ours =
        at == together.end() ? value_in(layer_, row->stage, threads_) : at->second;
    if (!ours) continue;
    if (const auto left =
            without_rounding(*row, row->difference, own_judge(*row), *ours, row->rounding))
      row->difference = *left;
  }
}

/// The error of a step by itself, relative to its stage.
double Differ::size_of_error(const StageDiff& row) const {
  const double unit = row.difference.rms;
  return (row.recomputed ? *row.recomputed : row.difference).max_abs / (unit > 0 ? unit : 1);
}

/// Chooses the first step that is wrong by itself. A step that is off by rounding gives way to a
/// later step with a far larger error: a rounded scale does not explain a softmax over queries.
void Differ::choose_first() {
  StageDiff* first = nullptr;
  for (StageDiff& row : result_.stages) {
    row.status =
        row.difference.within && row.difference.same_bits ? DiffStatus::equal : DiffStatus::close;
    if (row.difference.within || row.own == false) continue;
    if (follows_earlier_layers()) {
      row.status = DiffStatus::inherited;
      result_.follows = true;
      continue;
    }
    if (!first || (size_of_error(*first) < rounding_like(first->precision) &&
                   size_of_error(row) > much_larger * size_of_error(*first)))
      first = &row;
  }
  if (!first) return;
  result_.first = first->stage;
  first->status = DiffStatus::first;
  if (first->exact) first->exact->is_rounding = false; // the caller asked for a narrower tolerance
  for (StageDiff& row : result_.stages)
    if (comes_before(layer_, first->stage, row.stage) && !row.difference.within)
      row.status = DiffStatus::inherited;
}

/// Stages in float64: all, or those whose difference may be rounding.
std::map<Stage, Tensor> Differ::exact_stages() const {
  std::vector<Stage> wanted;
  for (const StageDiff& row : result_.stages)
    if (pass_->every_stage ||
        (!row.difference.within &&
         may_be_rounding(row.difference, coarser_of(layer_.dtype, row.precision))))
      wanted.push_back(row.stage);
  return wanted.empty() || !pass_->exact ? std::map<Stage, Tensor>{} : pass_->exact(wanted);
}

/// Decides which differences are rounding that has grown in a whole model's pass up to the stage.
/// Rounding in the reference's precision is taken to grow as this pass's has, measured against a
/// pass in float64.
void Differ::measure_pass() {
  if (!pass_ || !pass_->whole) return;
  const std::map<Stage, Tensor> exact = pass_->every_stage ? exact_ : exact_stages();
  if (exact.empty()) return;
  std::vector<Stage> measured;
  for (const StageDiff& row : result_.stages)
    if (!row.difference.within && exact.contains(row.stage)) measured.push_back(row.stage);
  if (measured.empty()) return;
  const Trace ours = trace(layer_, measured, {}, threads_);
  for (StageDiff& row : result_.stages) {
    const auto at = exact.find(row.stage);
    if (row.difference.within || at == exact.end()) continue;
    const GrownRounding grown{ours.value(row.stage), at->second};
    if (own_judge(row).is_far(*row.reference, as_saved(*row.reference, grown.ours), grown,
                              row.tolerance))
      continue;
    double allowed = 0;
    const auto left =
        without_rounding(row, row.difference, own_judge(row), grown.ours, allowed, &grown);
    if (left && left->within) row.pass_rounding = allowed;
  }
}

/// Whether a given step, recomputed by the layer's settings, gives the given value.
bool Differ::follows_own_settings(Stage stage) const {
  if (!layer_.has_given(stage)) return true;
  const std::optional<Tensor> again = value_in(without_given(layer_, stage), stage, threads_);
  const std::optional<Tensor> given = value_in(layer_, stage, threads_);
  if (!again || !given) return false;
  return compare(layer_, stage, *again, *given, default_tolerance(layer_.dtype)).within;
}

/// Fills `own`, `from` and `recomputed`.
void Differ::recompute(StageDiff& row) {
  StageSet whole;
  for (const ReferenceStage& theirs : reference_.stages)
    if (!theirs.in_part) whole.add(theirs.stage);
  for (const Stage before : ancestors_of(layer_, row.stage, whole))
    (contains(whole, before) ? row.from : row.between).push_back(before);
  const bool same_inputs = std::all_of(row.from.begin(), row.from.end(), [&](Stage stage) {
    const auto input = std::find_if(result_.stages.begin(), result_.stages.end(),
                                    [&](const StageDiff& other) { return other.stage == stage; });
    return input != result_.stages.end() && input->difference.within && input->difference.same_bits;
  });
  if (same_inputs) { // the comparison already used them
    row.own = true;
    return;
  }
  if (!follows_own_settings(row.stage)) return;
  const Layer edited =
      without_given(with_reference_before(layer_, row.stage, reference_), row.stage);
  const std::optional<Tensor> value = value_in(edited, row.stage, threads_);
  if (!value) return;
  const DType precision = coarser_of(layer_.dtype, row.precision);
  row.recomputed = against(row, *value, tolerance_for(*row.reference, precision));
  if (row.recomputed->within) {
    row.own = false;
    return;
  }
  if (may_be_rounding(*row.recomputed, precision)) {
    ShownRoundingJudge judge(edited, steps_of(row, true), threads_);
    double allowed = 0;
    if (const auto left = without_rounding(row, *row.recomputed, judge, *value, allowed))
      row.recomputed = *left;
  }
  row.own = !row.recomputed->within;
}

/// Rounding along the whole chain may allow a single step too much. If the reference has the inputs
/// of a step in a half type, the step is allowed its own rounding only. Steps with scores on the
/// way are exempt, because it is not known which of them a kernel rounds, nor are biased scores
/// judged.
void Differ::judge_by_itself(StageDiff& row) {
  if (!row.difference.within || row.rounding == 0 || !is_short(row.precision) ||
      row.stage == Stage::biased)
    return;
  StageDiff alone = row;
  recompute(alone);
  const bool hides_scores = std::ranges::any_of(
      alone.between, [](Stage stage) { return is_of(stage, {Section::scores}); });
  if (!alone.recomputed || alone.recomputed->within || hides_scores) return;
  row = std::move(alone);
  row.difference = *row.recomputed;
}

} // namespace

Diff diff(const Layer& layer, const Reference& reference, const Tolerances& tolerances,
          std::size_t threads, const PassContext* pass) {
  return Differ(layer, reference, tolerances, threads, pass).run();
}

} // namespace mha
