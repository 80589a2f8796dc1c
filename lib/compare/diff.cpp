#include <mha/compare/diff.hpp>

#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// How far above the effect of rounding its inputs a sound step's error may be.
constexpr double rounding_margin = 4;

/// Files that hold stages and no weights: nothing says how what is missing was computed.
bool holds_results_only(const Layer& layer) {
  return layer.given_set.any() && layer.W_q.empty() && layer.W_k.empty() && layer.W_v.empty() &&
         layer.W_o.empty();
}

/// The stages before `stage` that it is computed from, directly or not.
void collect_ancestors(const Layer& layer, Stage stage, StageSet& ancestors) {
  for (Stage input : inputs_of(layer, stage)) {
    if (contains(ancestors, input)) continue;
    ancestors.set(index_of(input));
    collect_ancestors(layer, input, ancestors);
  }
}

/// Whether a stage may be compared: of results alone, one that lies between given ones, or is
/// computed from such a one, would follow settings that nobody knows.
bool is_known(const Layer& layer, Stage stage) {
  if (layer.has_given(stage) || !holds_results_only(layer)) return true;
  for (const StageInfo& info : stages()) {
    if (!layer.has_given(info.stage)) continue;
    StageSet ancestors;
    collect_ancestors(layer, info.stage, ancestors);
    if (contains(ancestors, stage)) return false;
  }
  const std::vector<Stage> inputs = inputs_of(layer, stage);
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](Stage input) { return is_known(layer, input); });
}

/// The nearest stages of the reference that a stage is computed from.
void collect_nearest(const Layer& layer, Stage stage, const Reference& reference, StageSet& seen,
                     StageSet& nearest) {
  for (Stage input : inputs_of(layer, stage)) {
    if (contains(seen, input)) continue;
    seen.set(index_of(input));
    if (reference.find(input))
      nearest.set(index_of(input));
    else
      collect_nearest(layer, input, reference, seen, nearest);
  }
}

Layer without_given(Layer layer, Stage stage) {
  layer.given[index_of(stage)] = Tensor();
  layer.given_set.reset(index_of(stage));
  return layer;
}

/// The value of one stage of an edited layer; nothing where that cannot be computed.
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
    for (StageDiff& row : result_.stages) {
      judge(row);
      statuses_[row.stage] = row.status;
    }
    return std::move(result_);
  }

private:
  void compare_all();
  void judge(StageDiff& row);
  void recompute(StageDiff& row);
  double rounding_effect(const StageDiff& row) const;
  bool follows_own_settings(Stage stage) const;
  bool has_grown_from_rounding(StageDiff& row) const;

  const Layer& layer_;
  const Reference& reference_;
  const Tolerances& tolerances_;
  std::size_t threads_;
  const PassContext* pass_;
  Diff result_;
  std::map<Stage, DiffStatus> statuses_;
};

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
    row.tolerance = tolerances_.of(theirs.stage, coarser_of(layer_.dtype, theirs.stored));
    comparison.add(theirs, row.tolerance);
    result_.stages.push_back(std::move(row));
  }
  compute(layer_, make_plan(layer_, comparison.wants()), comparison, threads_);
  for (StageDiff& row : result_.stages) row.difference = comparison.of(row.stage);
}

void Differ::judge(StageDiff& row) {
  const Difference& found = row.difference;
  if (found.within) {
    row.status = found.same_bits ? DiffStatus::equal : DiffStatus::close;
    return;
  }
  if (pass_ && has_grown_from_rounding(row)) {
    row.status = DiffStatus::close;
    return;
  }
  if (pass_ && pass_->earlier) {
    row.status = DiffStatus::inherited;
    result_.follows = true;
    return;
  }
  recompute(row);
  if (result_.first) {
    row.status = DiffStatus::inherited;
  } else if (row.own == false) {
    row.status = DiffStatus::close; // a sound step, whose inputs are close
  } else {
    row.status = DiffStatus::first;
    result_.first = row.stage;
  }
}

/// Whether a stage of a whole model differs by no more than rounding, which grows from layer to
/// layer: by as much as this pass is from one in float64, in the precision of the reference.
bool Differ::has_grown_from_rounding(StageDiff& row) const {
  if (!pass_->exact || !std::isfinite(row.difference.max_abs)) return false;
  const std::optional<Tensor> exact = pass_->exact(row.stage);
  const std::optional<Tensor> ours = exact ? value_in(layer_, row.stage, threads_) : std::nullopt;
  if (!ours) return false;
  const double own = compare(layer_, row.stage, *ours, *exact, {}).max_abs;
  const DType stored = row.reference->stored;
  const double coarser = stored == DType::bf16 ? 0x1p16 : stored == DType::f16 ? 0x1p13 : 1;
  row.rounding = own * coarser;
  return row.difference.max_abs <= rounding_margin * *row.rounding;
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
  StageSet seen, nearest;
  collect_nearest(layer_, row.stage, reference_, seen, nearest);
  for (const StageInfo& info : stages())
    if (contains(seen, info.stage))
      (contains(nearest, info.stage) ? row.from : row.between).push_back(info.stage);
  const bool same_inputs = std::all_of(row.from.begin(), row.from.end(), [&](Stage stage) {
    const auto status = statuses_.find(stage);
    return status != statuses_.end() && status->second == DiffStatus::equal;
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
  row.recomputed = compare(layer_, row.stage, *value, row.reference->value, row.tolerance,
                           row.reference->stored);
  row.own =
      !row.recomputed->within && row.recomputed->max_abs > rounding_margin * rounding_effect(row);
}

/// How far this step's value moves when its inputs are rounded as the reference stores them: what a
/// recomputation from a reference that was stored rounded cannot know.
double Differ::rounding_effect(const StageDiff& row) const {
  Layer rounded = layer_;
  bool some = false;
  for (Stage stage : row.from) {
    const DType stored = reference_.find(stage)->stored;
    const std::optional<Tensor> value = value_in(layer_, stage, threads_);
    if (!value || coarser_of(stored, layer_.dtype) == layer_.dtype) continue;
    rounded = with_given(std::move(rounded), stage, convert(convert(*value, stored), layer_.dtype));
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

std::string_view name_of(DiffStatus status) {
  switch (status) {
  case DiffStatus::equal:
    return "equal";
  case DiffStatus::close:
    return "close";
  case DiffStatus::first:
    return "first";
  case DiffStatus::inherited:
    return "inherited";
  }
  return "?";
}

Diff diff(const Layer& layer, const Reference& reference, const Tolerances& tolerances,
          std::size_t threads, const PassContext* pass) {
  return Differ(layer, reference, tolerances, threads, pass).run();
}

Layer with_given(Layer layer, Stage stage, const Tensor& value) {
  const StageInfo& info = info_of(stage);
  const Dims& dims = layer.dims;
  Tensor own = convert(value, layer.dtype);
  if (layer.settings.columns && info.kind != Kind::row) own = transposed(own);
  Shape shape{dims.B};
  for (Letter letter : info.letters) shape.push_back(dims.size_of(letter));
  own = own.reshaped(shape);
  if (info.kind == Kind::token && info.letters.size() == 3)
    own = permuted(own, {0, 2, 1, 3}).reshaped({dims.B, shape[2], shape[1] * shape[3]});
  layer.given[index_of(stage)] = own;
  layer.given_set.set(index_of(stage));
  return layer;
}

Layer with_reference_before(const Layer& layer, Stage stage, const Reference& reference) {
  Layer edited = layer;
  for (const ReferenceStage& theirs : reference.stages)
    if (theirs.stage < stage) edited = with_given(std::move(edited), theirs.stage, theirs.value);
  return edited;
}

} // namespace mha
