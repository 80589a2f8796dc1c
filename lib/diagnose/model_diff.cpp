#include <mha/diagnose/model_diff.hpp>

#include <mha/compare/choices.hpp>
#include <mha/compare/layer_reference.hpp>
#include <mha/compare/settle.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

std::vector<Stage> compared_stages(const Diff& found) {
  std::vector<Stage> list;
  for (const StageDiff& row : found.stages) list.push_back(row.stage);
  return list;
}

/// The stream after a layer in the reference, if it agrees.
std::optional<Tensor> agreed_stream(const Diff& found) {
  for (const StageDiff& row : found.stages)
    if (row.stage == Stage::resid_post && row.difference.within) return row.reference->value;
  return std::nullopt;
}

/// Allows the model's ends the rounding of the layer before, which is seen there alone.
void allow_rounding(const Reference& of_ends, Tolerances& tolerances) {
  for (const ReferenceStage& theirs : of_ends.stages)
    if (!tolerances.asked_for(theirs.stage))
      tolerances.stage_absolute[theirs.stage] =
          rounding_like(theirs.stored) *
          distance(theirs.value, Tensor(DType::f32, theirs.value.shape())) /
          std::sqrt(static_cast<double>(theirs.value.count()));
}

/// The choices of experts that are others in the reference, where its own scores made them.
std::size_t other_choices_in(const Diff& found) {
  const auto row = std::ranges::find(found.stages, Stage::experts, &StageDiff::stage);
  return row != found.stages.end() && found.equal() ? row->difference.mismatched : 0;
}

/// Why a comparison does not cover the whole reference.
std::vector<std::string> why_incomplete(const Reference& reference, const Outcome& outcome) {
  if (const std::string heads = reference.about_heads(); !heads.empty()) return {heads};
  if (!outcome.not_compared.empty())
    return {"not compared: " + joined_texts(outcome.not_compared, "; ", &NotCompared::text)};
  if (outcome.compared.empty())
    return {"nothing was compared: the reference's tensors are those that this layer is given"};
  if (outcome.only_inputs)
    return {"nothing after the inputs was compared: " + joined_names(outcome.compared) + " alone"};
  return {};
}

} // namespace

ModelDiff::ModelDiff(OpenedModel& model, ReferenceFiles files, DiffRequest request, ExactPass exact)
    : model_(&model),
      files_(std::move(files)),
      request_(std::move(request)),
      exact_(std::move(exact)),
      whole_(whole_model_of(model)),
      notes_(require_same_text(model, files_).notes) {
  if (!whole_) require_layer_of_stages(files_, model.chosen().size());
  if (files_.names(Stage::rollout, model.chosen())) model.roll_out();
}

ModelDiff::ModelDiff(ReferenceFiles files, DiffRequest request)
    : files_(std::move(files)), request_(std::move(request)) {}

Reference ModelDiff::read(const LoadedLayer& loaded, Effort& effort) {
  Reference reference = read_or_compute(loaded, files_, effort, whole_ ? &*whole_ : nullptr);
  if (!request_.stages.empty()) {
    const bool speaks_of_it = !reference.stages.empty() || !reference.ambiguous.empty();
    const std::vector<Stage> missing = choose(reference, request_.stages);
    if (!has_lines() && !missing.empty())
      fail("<against> {}: {} is not in it, which <stage> asks for", fmt::join(files_.texts(), " "),
           joined_names(missing, " or "));
    for (Stage stage : missing)
      if (speaks_of_it && contains(available_stages(loaded.layer), stage))
        reference.not_compared.push_back(
            {loaded.id.empty() ? std::string(name_of(stage))
                               : fmt::format("layers.{}.{}", loaded.id, name_of(stage)),
             "asked for, but not in what the reference has of the layer"});
  }
  Reference best;
  effort.compute_s += seconds_of([&] {
    best = std::move(settled(loaded.layer, std::move(reference), effort.threads).front());
  });
  for (const ReferenceStage& one : best.stages) found_.add(one.stage);
  for (const NotCompared& one : best.not_compared)
    if (one.misshapen) found_.add(*one.misshapen);
  return best;
}

/// The layer with the reference's choices of experts; computed from its stream where rounding has
/// made another choice before.
Layer ModelDiff::with_choices(const Layer& own, const Reference& reference) {
  if (!is_whole()) return own;
  if (own.ends && before_ends_) return ends_with_choices(own, reference);
  before_ends_.reset();
  if (!is_mixture(own) && other_choices_ == 0) return own;
  const std::optional<Tensor> stream = stream_.before(reference);
  Layer layer = stream ? with_stream(own, *stream) : own;
  if (stream && equal_ && is_mixture(own) && !reference.find(Stage::experts)) {
    take_choices_of(reference, request_.threads, layer);
    other_choices_ += tokens_of_other_experts(own, layer, request_.threads);
  }
  if (!reference.find(Stage::resid_post)) before_ends_ = layer;
  return other_choices_ > 0 ? layer : own;
}

/// The same of the model's ends, after a layer whose result is seen there alone.
Layer ModelDiff::ends_with_choices(const Layer& own, const Reference& reference) {
  const auto after = [&](const Layer& last) {
    return with_stream(own, whole_stage(last, Stage::resid_post, request_.threads));
  };
  const auto final_after = [&](const Layer& last) {
    return whole_stage(after(last), Stage::final, request_.threads);
  };
  if (const ReferenceStage* theirs = reference.find(Stage::final); theirs && !theirs->in_part)
    other_choices_ += take_choices_of(theirs->value, theirs->stored, final_after, *before_ends_);
  return other_choices_ > 0 ? after(*before_ends_) : own;
}

Diff ModelDiff::compare(const LoadedLayer& loaded, const Reference& reference) {
  const Layer layer = with_choices(loaded.layer, reference);
  const bool from_theirs = other_choices_ > 0;
  Tolerances tolerances = request_.tolerances;
  if (from_theirs && layer.ends && before_ends_) allow_rounding(reference, tolerances);
  PassContext pass;
  pass.whole = is_whole() && !from_theirs, pass.earlier = is_whole() && !equal_;
  pass.agreed = agreed_ ? &*agreed_ : nullptr, pass.every_stage = request_.every_stage;
  if (model_ && !from_theirs) pass.compute = model_->compute();
  if (exact_ && !from_theirs && layer.dtype == DType::f32)
    pass.exact = [&](const std::vector<Stage>& stages) {
      return exact_->stages(loaded.id, stages, request_.threads);
    };
  Diff found = diff(layer, reference, tolerances, request_.threads,
                    is_whole() || request_.every_stage ? &pass : nullptr);
  if (!is_whole()) return found;
  if (found.follows)
    judge_alone(layer, reference, stream_.before(reference), tolerances, request_.threads, found);
  if (found.equal() && equal_) {
    const std::optional<Tensor> stream = stream_.before(reference);
    gelu_.add(stream && !loaded.id.empty() ? with_stream(layer, *stream) : layer, reference,
              stream || first_layer_, request_.threads);
  }
  first_layer_ = false;
  stream_.pass(layer, reference);
  agreed_ = agreed_stream(found);
  other_choices_ += other_choices_in(found);
  coverage_.add(loaded.id, compared_stages(found), reference);
  return found;
}

std::optional<Outcome> ModelDiff::conclude(const LoadedLayer& loaded, const Reference& reference,
                                           Diff& found) {
  mark_same_tensors(loaded, found);
  Outcome outcome = outcome_of(loaded.layer, reference, found, {is_whole(), request_.stages});
  compared_ = compared_ || !found.stages.empty();
  if (found.stages.empty() && outcome.not_compared.empty()) return std::nullopt;
  equal_ = equal_ && found.equal();
  for (const std::string& why : why_incomplete(reference, outcome)) missed_.push_back(why);
  verdict_ = worse_of(verdict_, outcome.verdict);
  return outcome;
}

GeluForms::Verdict ModelDiff::form_of_gelu() {
  if (!equal_) return GeluForms::Verdict::not_asked;
  const GeluForms::Verdict form = gelu_.verdict();
  if (form == GeluForms::Verdict::other) verdict_ = Verdict::differs;
  return form;
}

std::vector<Stage> ModelDiff::missing_stages() const {
  std::vector<Stage> missing;
  for (Stage stage : request_.stages)
    if (!contains(found_, stage)) missing.push_back(stage);
  return missing;
}

std::vector<std::string> ModelDiff::missed() const {
  const std::vector<std::string> of_whole = coverage_.not_compared();
  return is_whole() && !of_whole.empty() ? of_whole : missed_;
}

std::vector<std::string> ModelDiff::other_layers() const {
  std::vector<std::string> others;
  if (!model_) return others;
  std::set<std::size_t> numbers;
  for (const std::string& text : files_.texts()) {
    const io::Source source = io::parse_source(text);
    if (!source.name.empty() || io::mentions_layer(source)) continue;
    for (const auto& [number, entries] : files_.open(source.path)->layers()) numbers.insert(number);
  }
  for (const std::size_t number : numbers)
    if ((!whole_ || number < whole_->layers) && (whole_ || !model_->chosen().front().empty()) &&
        std::ranges::count(model_->chosen(), std::to_string(number)) == 0)
      others.push_back(std::to_string(number));
  return others;
}

} // namespace mha
