#include <mha/compare/diff.hpp>

#include <mha/compare/decimals.hpp>
#include <mha/compare/other_readings.hpp>
#include <mha/compare/rounding.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// How far above the effect of rounding its inputs a sound step's error may be.
constexpr double rounding_margin = 4;
/// How much more than our own rounded computation another one may be off by, and how many units in
/// the last place of a typical number: two computations that round alike do not round the same.
constexpr double growth_margin = 3, rms_units = 8;
/// How much larger the error of a later step must be for an earlier one to pass for rounding.
constexpr double much_larger = 20;
/// An error of so many times what is like rounding, relative to a stage's largest number, is none,
/// however it grew: what rounding does is not computed for it.
constexpr double longest_growth = 30;

/// Files that hold stages and no weights: nothing says how what is missing was computed.
bool holds_results_only(const Layer& layer) {
  return layer.given_set.any() && layer.W_q.empty() && layer.W_k.empty() && layer.W_v.empty() &&
         layer.W_o.empty();
}

/// Whether a stage may be compared: of results alone, one that lies between given ones, or is
/// computed from such a one, would follow settings that are not known.
bool is_known(const Layer& layer, Stage stage) {
  if (layer.has_given(stage) || !holds_results_only(layer)) return true;
  for (const Stage given : layer.given_set)
    if (contains(ancestors_of(layer, given), stage)) return false;
  const std::vector<Stage> inputs = inputs_of(layer, stage);
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](Stage input) { return is_known(layer, input); });
}

Layer without_given(Layer layer, Stage stage) {
  layer.given[index_of(stage)] = Tensor();
  layer.given_set.remove(stage);
  return layer;
}

/// The value of one stage of an edited layer; nothing where that cannot be computed.
std::optional<Tensor> value_in(const Layer& layer, Stage stage, std::size_t threads) {
  if (!contains(available_stages(layer), stage)) return std::nullopt;
  return trace(layer, {stage}, {}, threads).value(stage);
}

/// Errors of rounding size, relative to a stage's root mean square: several units in the last
/// place.
double rounding_like(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return 0.06;
  case DType::f16:
    return 0.01;
  case DType::f32:
    return 2e-5;
  default:
    return 1e-12;
  }
}

/// Whether an error can be rounding at all, of a layer by itself or of `layers` behind each other.
bool may_be_rounding(const StageDiff& row, const Difference& found, DType ours, double layers = 1) {
  return found.max_abs <= layers * longest_growth * rounding_like(coarser_of(ours, row.precision)) *
                              largest_number(row.reference->value);
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
    for (StageDiff& row : result_.stages) {
      if (row.difference.within) continue;
      if (row.pass_rounding && row.difference.max_abs <= rounding_margin * *row.pass_rounding)
        row.own = false;
      else if (!follows_earlier_layers())
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
  double rounding_effect(const StageDiff& row) const;
  double size_of_error(const StageDiff& row) const;
  Tolerance tolerance_for(const ReferenceStage& theirs, DType coarser) const;
  Difference against(const StageDiff& row, const Tensor& ours, Tolerance tolerance) const;
  DType precision_of_chain(Stage stage) const;
  bool follows_own_settings(Stage stage) const;
  void measure_pass();
  std::map<Stage, Tensor> exact_stages() const;
  bool follows_earlier_layers() const { return pass_ && pass_->earlier; }

  const Layer& layer_;
  const Reference& reference_;
  const Tolerances& tolerances_;
  std::size_t threads_;
  const PassContext* pass_;
  std::map<Stage, Tensor> exact_; ///< where every stage is compared with float64
  Diff result_;
};

/// The coarsest type that a stage of the reference, and what it was computed from, are of: a step
/// that is stored in float32 inherits the rounding of bfloat16 inputs. What is gathered, not
/// computed (the stream before the first layer, x of a layer without a norm) has the precision of
/// the checkpoint and says nothing about the computation.
DType Differ::precision_of_chain(Stage stage) const {
  const StageSet ancestors = ancestors_of(layer_, stage);
  DType coarsest = reference_.find(stage)->stored;
  for (const ReferenceStage& theirs : reference_.stages)
    if (contains(ancestors, theirs.stage) &&
        (theirs.stage == Stage::x ? layer_.settings.input_norm != InputNorm::none
                                  : follows(theirs.stage, Stage::x)))
      coarsest = coarser_of(coarsest, theirs.stored);
  return coarsest;
}

/// The stage's, and what typed numbers may be off by.
Tolerance Differ::tolerance_for(const ReferenceStage& theirs, DType coarser) const {
  Tolerance tolerance = tolerances_.of(theirs.stage, coarser);
  if (!tolerances_.asked_for(theirs.stage)) tolerance.absolute += theirs.resolution;
  return tolerance;
}

/// One value of a stage against the reference's.
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
    if (!is_known(layer_, theirs.stage)) {
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
  Comparison own(layer_); // with float64, in the same computation
  if (pass_ && pass_->every_stage) exact_ = exact_stages();
  for (const auto& [stage, exact] : exact_) own.add({stage, exact, DType::f64, "float64", ""}, {});
  Several both;
  both.add(comparison), both.add(own);
  compute(layer_, make_plan(layer_, both.wants()), both, threads_);
  for (StageDiff& row : result_.stages) {
    row.difference = row.reference->mean_of_heads
                         ? against(row, *value_in(layer_, row.stage, threads_), row.tolerance)
                         : comparison.of(row.stage);
    if (row.stage == Stage::resid_pre && pass_ && pass_->has_agreed(row.reference->value))
      row.difference.within = true;
    if (const auto exact = exact_.find(row.stage);
        exact != exact_.end() && !row.reference->mean_of_heads)
      row.exact = from_exact(layer_, *row.reference, own.of(row.stage).max_abs, exact->second,
                             row.precision);
  }
}

/// Widens the tolerance of stages that are outside to what rounding makes of them: a multiple of
/// their root mean square, and what grows along the chain of rounded steps. Where the tolerance was
/// asked for, it stays.
void Differ::allow_rounding() {
  std::map<DType, std::vector<Stage>> outside;
  for (const StageDiff& row : result_.stages)
    if (!row.difference.within && !tolerances_.asked_for(row.stage) &&
        !holds_results_only(layer_) && may_be_rounding(row, row.difference, layer_.dtype))
      outside[coarser_of(layer_.dtype, row.precision)].push_back(row.stage);
  for (const auto& [precision, stages] : outside) {
    const std::map<Stage, double> errors = rounding_errors(layer_, stages, precision, threads_);
    for (StageDiff& row : result_.stages) {
      const auto error = errors.find(row.stage);
      if (row.difference.within || error == errors.end()) continue;
      const double rounding =
          growth_margin * error->second +
          rms_units * unit_of(precision) * root_mean_square(row.reference->value);
      const std::optional<Tensor> ours = value_in(layer_, row.stage, threads_);
      if (!ours) continue;
      const Tolerance wider{row.tolerance.absolute + rounding, row.tolerance.relative};
      const Difference allowed = against(row, *ours, wider);
      if (!allowed.within) continue;
      row.difference = allowed, row.rounding = rounding;
    }
  }
}

/// The error of a step that is wrong by itself, relative to its stage.
double Differ::size_of_error(const StageDiff& row) const {
  const double unit = root_mean_square(row.reference->value);
  return (row.recomputed ? *row.recomputed : row.difference).max_abs / (unit > 0 ? unit : 1);
}

/// The first step that is wrong by itself. One that is off by rounding gives way to a later one
/// whose error is of another size: a rounded scale is not why the softmax runs over the queries.
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
  for (StageDiff& row : result_.stages)
    if (row.stage > first->stage && !row.difference.within) row.status = DiffStatus::inherited;
}

/// Stages in float64: all of them, or those that may have grown out of tolerance by rounding.
std::map<Stage, Tensor> Differ::exact_stages() const {
  constexpr double many_layers = 10;
  std::vector<Stage> wanted;
  for (const StageDiff& row : result_.stages)
    if (pass_->every_stage || (!row.difference.within && std::isfinite(row.difference.max_abs) &&
                               may_be_rounding(row, row.difference, layer_.dtype, many_layers)))
      wanted.push_back(row.stage);
  return wanted.empty() || !pass_->exact ? std::map<Stage, Tensor>{} : pass_->exact(wanted);
}

/// What rounding makes of a whole model's pass up to a stage, which grows from layer to layer: by
/// as much as this pass is from one in float64, in the precision of the reference.
void Differ::measure_pass() {
  if (!pass_ || !pass_->whole) return;
  const std::map<Stage, Tensor> exact = pass_->every_stage ? exact_ : exact_stages();
  if (exact.empty()) return;
  std::vector<Stage> measured;
  for (const StageDiff& row : result_.stages)
    if (!row.difference.within && !row.exact && exact.contains(row.stage))
      measured.push_back(row.stage);
  const Trace ours = trace(layer_, measured, {}, threads_);
  for (StageDiff& row : result_.stages) {
    const auto at = exact.find(row.stage);
    if (row.difference.within || at == exact.end()) continue;
    row.pass_rounding =
        (row.exact
             ? *row.exact
             : from_exact(layer_, *row.reference,
                          compare(layer_, row.stage, ours.value(row.stage), at->second, {}).max_abs,
                          at->second, row.reference->stored))
            .rounding;
  }
}

/// Whether a step of results alone, recomputed by the settings there are, gives what is there.
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
                                    [&](const StageDiff& one) { return one.stage == stage; });
    return input != result_.stages.end() && input->difference.within && input->difference.same_bits;
  });
  if (same_inputs) { // that is what was compared already
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
  double allowed = rounding_margin * rounding_effect(row);
  if (!tolerances_.asked_for(row.stage) && may_be_rounding(row, *row.recomputed, layer_.dtype)) {
    const std::map<Stage, double> errors =
        rounding_errors(edited, {row.stage}, precision, threads_);
    const auto error = errors.find(row.stage);
    if (error != errors.end())
      allowed += growth_margin * error->second +
                 rms_units * unit_of(precision) * root_mean_square(row.reference->value);
  }
  row.own = row.recomputed->max_abs > allowed;
}

/// How far this step's value moves when its inputs are rounded as the reference stores them: what a
/// recomputation from a reference that was stored rounded cannot know.
double Differ::rounding_effect(const StageDiff& row) const {
  Layer rounded = layer_;
  bool some = false;
  for (Stage stage : row.from) {
    const DType stored = precision_of_chain(stage);
    const double resolution = reference_.find(stage)->resolution;
    const std::optional<Tensor> value = value_in(layer_, stage, threads_);
    const bool finer = coarser_of(stored, layer_.dtype) == layer_.dtype;
    if (!value || (finer && resolution == 0)) continue;
    rounded = with_given(std::move(rounded), stage,
                         resolution > 0 ? at_resolution(*value, resolution)
                                        : convert(convert(*value, stored), layer_.dtype));
    some = true;
  }
  if (!some) return 0;
  const std::optional<Tensor> exact = value_in(layer_, row.stage, threads_),
                              moved =
                                  value_in(without_given(rounded, row.stage), row.stage, threads_);
  if (!exact || !moved) return 0;
  const double effect = compare(layer_, row.stage, *moved, *exact, {}).max_abs;
  return std::isfinite(effect) ? effect : 0;
}

} // namespace

Tolerance Tolerances::of(Stage stage, DType coarser) const {
  const Tolerance usual = default_tolerance(coarser);
  const auto chosen = [&](const std::map<Stage, double>& by_stage, std::optional<double> all,
                          double otherwise) {
    const auto at = by_stage.find(stage);
    return at != by_stage.end() ? at->second : all.value_or(otherwise);
  };
  return {chosen(stage_absolute, absolute, usual.absolute),
          chosen(stage_relative, relative, usual.relative)};
}

bool Tolerances::asked_for(Stage stage) const {
  return absolute || relative || stage_absolute.contains(stage) || stage_relative.contains(stage);
}

std::string_view name_of(DiffStatus status) {
  constexpr std::array<std::string_view, 5> names{"equal", "close", "first", "inherited",
                                                  "same tensor"};
  return names[static_cast<std::size_t>(status)];
}

Diff diff(const Layer& layer, const Reference& reference, const Tolerances& tolerances,
          std::size_t threads, const PassContext* pass) {
  return Differ(layer, reference, tolerances, threads, pass).run();
}

} // namespace mha
