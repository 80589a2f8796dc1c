// A reference is what another implementation of the model saved. These functions compare the
// residual stream between its layers with the model's own, and find tensors saved as resid_post
// that come from another step of the layer. `last_` is the layer compared last.

#include <mha/diagnose/model_diagnoser.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>

namespace mha {

/// The stream that leaves a layer is the stream that enters the next one. If the reference has two
/// different tensors for it, the second layer ran twice and its last run was saved, or something
/// else ran between the two layers, or the tensors come from different runs.
void ModelDiagnoser::between(const LoadedLayer& loaded, const Reference& reference) {
  const ReferenceStage* saved_resid_pre = reference.find(Stage::resid_pre);
  if (!saved_resid_pre || !stream_.output_before()) return;
  const DType dtype = loaded.layer.dtype;
  const Tensor theirs = convert(saved_resid_pre->value, dtype),
               previous_stream = convert(*stream_.output_before(), dtype);
  Diagnosis diagnosis;
  const Agreement agreement =
      agreement_of(previous_stream, theirs, tolerance_of(saved_resid_pre->stored));
  if (agreement.agrees || agreement.error < thresholds::same_stream) return;
  if (saved_from_other_step(theirs, tolerance_of(saved_resid_pre->stored))) return;
  const Layer first_run = with_stream(loaded.layer, previous_stream);
  const Tensor after_first_run =
      trace(first_run, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post);
  Agreement agreement_if_twice =
      agreement_of(after_first_run, theirs, tolerance_of(saved_resid_pre->stored));
  diagnosis.error_before = agreement.error;
  if (agreement_if_twice.error < thresholds::same_stream) {
    Change change;
    change.id = "block.twice", change.touches.add(Stage::resid_pre);
    change.did = fmt::format("runs layer {} twice, and saves its last run", loaded.id);
    change.cure = fmt::format("run layer {} once", loaded.id);
    agreement_if_twice.agrees = true;
    diagnosis.explained = true, diagnosis.changes = {change},
    diagnosis.error_after = agreement_if_twice.error;
    diagnosis.stages.push_back({Stage::resid_pre, agreement, agreement_if_twice, {}});
  } else {
    diagnosis.unexplained = Stage::resid_pre, diagnosis.error_after = agreement.error;
    diagnosis.stages.push_back({Stage::resid_pre, agreement, agreement, {}});
    diagnosis.ours = agreement.ours, diagnosis.theirs = agreement.theirs;
    diagnosis.at =
        coordinates_of(loaded.layer, Stage::resid_pre,
                       place_of(loaded.layer.shape_of(Stage::resid_pre), agreement.worst));
    diagnosis.hints.push_back(
        fmt::format("in the reference itself, what enters layer {} is not what the layer before it "
                    "returns: something runs between the two, or they were saved in "
                    "different runs",
                    loaded.id));
  }
  keep(loaded.id, loaded, std::move(diagnosis));
}

/// If tokens attend to the padding around their text, every layer differs from the reference for
/// this one reason, and no layer needs a diagnosis of its own. Returns whether this change explains
/// the first saved stage of the model's end.
bool ModelDiagnoser::padding_was_attended(const LoadedLayer& first) {
  if (!around_.is_padded()) return false;
  last_ = first, embed_ = first.layer.X;
  const Layer ends = ends_from(embed_);
  const std::vector<Reference> readings = load_readings(of_ends(ends), files_, effort_, &whole_);
  const std::vector<ReferenceStage> targets = targets_in(readings.front(), false);
  std::optional<Diagnosis> found;
  if (!targets.empty())
    found = explain_attended_padding(outlines(), ends, targets.front(),
                                     {false, effort_.threads, &around_, nullptr});
  if (found) {
    for (const std::string& id : texts_.layers()) {
      const Reference of_layer = load_readings(calls_.load(id), files_, effort_, &whole_).front();
      diagnoses_.coverage.add(id, stages_in(of_layer), of_layer);
    }
    diagnoses_.coverage.add("", stages_in(readings.front()), readings.front());
    keep("", of_ends(ends), std::move(*found));
  }
  last_.reset();
  return found.has_value();
}

/// If the reference lacks the embedding that enters the first layer, the saved stages of this layer
/// (`known`) determine which change of the embedding explains them. Returns whether there is such a
/// change; `layer` then has the changed embedding as its input.
bool ModelDiagnoser::explain_embedding_from_layer(const LoadedLayer& loaded,
                                                  const std::vector<ReferenceStage>& known,
                                                  Layer& layer) {
  const Layer ends = ends_from(last_->layer.X);
  std::optional<Diagnosis> found =
      explain_embedding(ends, layer, known, {false, effort_.threads, &around_, nullptr});
  if (!found) return false;
  layer = with_stream(loaded.layer, changed(ends, {&found->changes[0]}).ends->embed);
  keep("embed", loaded, std::move(*found));
  return true;
}

/// The stream between two layers is a sum of stages of the first layer. The saved stages of the
/// second (`known`) determine which other sum explains them. Returns whether there is such a sum;
/// `layer` then has it as its input.
bool ModelDiagnoser::explain_stream_from_next_layer(const std::vector<ReferenceStage>& known,
                                                    Layer& layer) {
  std::optional<Diagnosis> found =
      explain_last_sum(last_->layer, layer, known, {false, effort_.threads, &around_, nullptr});
  if (!found) return false;
  const Layer before = changed(last_->layer, {&found->changes[0]});
  layer = with_stream(
      layer, trace(before, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post));
  keep(last_->id, *last_, std::move(*found));
  return true;
}

/// A reference may have saved the output x of the input norm as resid_pre. That tensor is not the
/// residual stream, so that resid_pre is removed from all readings of the reference.
void ModelDiagnoser::drop_normalised_resid_pre(const LoadedLayer& loaded,
                                               const std::optional<Tensor>& before,
                                               std::vector<Reference>& readings) {
  const ReferenceStage* saved_resid_pre = readings.front().find(Stage::resid_pre);
  if (!saved_resid_pre || !before || !has_step(loaded.layer, Stage::x) ||
      loaded.layer.settings.input_norm == InputNorm::none)
    return;
  const DType dtype = loaded.layer.dtype;
  const Tensor theirs = convert(saved_resid_pre->value, dtype);
  const double tolerance = tolerance_of(saved_resid_pre->stored);
  if (agreement_of(convert(*before, dtype).reshaped(theirs.shape()), theirs, tolerance).agrees)
    return;
  const Tensor x =
      trace(with_stream(loaded.layer, *before), {Stage::x}, {}, effort_.threads).value(Stage::x);
  if (!agreement_of(x, theirs, tolerance).agrees) return;
  captures_.push_back({Stage::resid_pre, "x"});
  for (Reference& reading : readings)
    std::erase_if(reading.stages,
                  [](const ReferenceStage& one) { return one.stage == Stage::resid_pre; });
}

/// Whether each change in the diagnosis of the last layer affects its resid_post alone.
bool ModelDiagnoser::only_last_resid_post_differs() const {
  if (!last_ || !stream_.output_before() || diagnoses_.places.empty() ||
      diagnoses_.places.back().id != last_->id)
    return false;
  const Diagnosis& before = diagnoses_.places.back().diagnosis;
  return !before.changes.empty() && std::ranges::all_of(before.changes, [](const Change& change) {
    return change.touches == StageSet{Stage::resid_post};
  });
}

/// The saved resid_post of the last layer may come from another step while the next layer was
/// computed from the right stream. Returns this stream, which is the model's own, if it explains
/// the first saved stage of the next layer.
std::optional<Tensor> ModelDiagnoser::computed_stream(const LoadedLayer& next,
                                                      const Reference& reference) {
  if (!only_last_resid_post_differs() || reference.find(Stage::resid_pre)) return std::nullopt;
  const std::vector<ReferenceStage> targets = targets_in(reference, false);
  if (targets.empty()) return std::nullopt;
  const Tensor own =
      trace(last_->layer, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post);
  const ReferenceStage& target = targets.front();
  const Tensor value =
      trace(with_stream(next.layer, own), {target.stage}, {}, effort_.threads).value(target.stage);
  const double tolerance = tolerance_of(target.stored);
  if (!agreement_of(value, convert(target.value, value.dtype()), tolerance).agrees ||
      !saved_from_other_step(own, tolerance))
    return std::nullopt;
  last_changes_.clear(), stream_is_unknown_ = false;
  return own;
}

/// No layer follows the final one, so that no saved stage can show that its resid_post comes from
/// another step. The layer before it decides: if its resid_post comes from another step, and the
/// final layer differs only in resid_post, its resid_post does so as well.
void ModelDiagnoser::apply_other_step_to_final_layer() {
  const std::size_t count = diagnoses_.places.size();
  if (count < 2 || !only_last_resid_post_differs()) return;
  const std::vector<OtherStep>& before = diagnoses_.places[count - 2].diagnosis.captures;
  if (std::ranges::find(before, Stage::resid_post, &OtherStep::stage) == before.end()) return;
  const Tensor own =
      trace(last_->layer, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post);
  if (!saved_from_other_step(own, tolerance_of(own.dtype()))) return;
  ends_with_own_ = true;
  last_changes_.clear(), stream_is_unknown_ = false;
}

/// Whether the stream after the last layer, `next`, equals the model's own although the saved
/// resid_post does not. Then nothing is wrong in the layer, and the saved tensor comes from another
/// step: the diagnosis of the layer is replaced by this finding.
bool ModelDiagnoser::saved_from_other_step(const Tensor& next, double tolerance) {
  if (!only_last_resid_post_differs()) return false;
  const Tensor ours =
      trace(last_->layer, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post);
  if (!agreement_of(ours, convert(next, ours.dtype()).reshaped(ours.shape()), tolerance).agrees)
    return false;
  const Layer plain = plain_form(last_->layer);
  const std::string other = other_step_of(
      plain, Stage::resid_post,
      with_given(plain, Stage::resid_post, convert(*stream_.output_before(), ours.dtype()))
          .given[index_of(Stage::resid_post)],
      effort_.threads);
  record_other_step(diagnoses_.places.back(), other.empty() ? "not a sum of the stream" : other);
  return true;
}

/// Replaces the diagnosis of a place by the finding that its saved resid_post is the step `other`
/// and that nothing else differs.
void ModelDiagnoser::record_other_step(PlaceDiagnosis& place, const std::string& other) {
  Diagnosis& diagnosis = place.diagnosis;
  diagnosis.captures.push_back({Stage::resid_post, other});
  diagnosis.changes.clear(), diagnosis.stages.clear(), diagnosis.runners_up.clear(),
      diagnosis.same_numbers.clear();
  diagnoses_.coverage.remove(place.id, Stage::resid_post);
  diagnosis.equal = diagnosis.explained = true, diagnosis.unexplained = {};
}

/// If the reference saved the input of each layer as its resid_post, the first layer seems to be
/// skipped, and each other layer to run with the weights of the layer before. These diagnoses are
/// replaced by the finding that each resid_post is resid_pre.
void ModelDiagnoser::detect_saved_layer_inputs() {
  const std::vector<std::string>& layers = texts_.layers();
  std::vector<PlaceDiagnosis*> places;
  for (PlaceDiagnosis& place : diagnoses_.places)
    if (place.id != "embed") places.push_back(&place);
  if (places.size() < 2 || places.size() != layers.size() || !stream_.output_before()) return;
  for (std::size_t n = 0; n < places.size(); ++n) {
    const std::vector<Change>& changes = places[n]->diagnosis.changes;
    if (places[n]->id != layers[n] || changes.size() != 1) return;
    const bool as_expected =
        n == 0 ? changes[0].id == "block.skipped"
               : changes[0].did == fmt::format("runs layer {}'s weights in this layer", n - 1);
    if (!as_expected) return;
  }
  for (PlaceDiagnosis* place : places) record_other_step(*place, "resid_pre");
  last_->layer = with_stream(last_->layer, *stream_.output_before());
  ends_with_own_ = true, stream_is_unknown_ = false;
  last_changes_.clear();
}

/// If the reference saved the stream that enters the feed-forward (stage residual) as resid_post of
/// each layer, the first layer seems to lack the feed-forward, and no other layer is explained by
/// the tensors saved before it. Each layer is therefore computed from the model's own stream; if
/// its residual equals the saved tensor in all layers, the diagnoses are replaced by this finding.
void ModelDiagnoser::detect_saved_feed_forward_inputs() {
  const std::vector<std::string>& layers = texts_.layers();
  std::vector<PlaceDiagnosis*> places;
  for (PlaceDiagnosis& place : diagnoses_.places)
    if (place.id != "embed") places.push_back(&place);
  if (places.size() < 2 || places.size() != layers.size() || !stream_.output_before()) return;
  const std::vector<Change>& first_changes = places[0]->diagnosis.changes;
  if (first_changes.size() != 1 ||
      (first_changes[0].id != "mlp.missing" && first_changes[0].id != "block.handed.residual"))
    return;
  Tensor last_input;
  for (std::size_t n = 0; n < layers.size(); ++n) {
    const LoadedLayer loaded = calls_.load(layers[n]); // on the model's own stream
    const Reference reading = load_readings(loaded, files_, effort_, &whole_).front();
    const ReferenceStage* saved = reading.find(Stage::resid_post);
    if (places[n]->id != layers[n] || !saved || reading.find(Stage::resid_pre)) return;
    auto stages = trace(loaded.layer, {Stage::residual, Stage::resid_post}, {}, effort_.threads);
    const Tensor residual = stages.value(Stage::residual);
    if (!agreement_of(residual, convert(saved->value, residual.dtype()),
                      tolerance_of(saved->stored))
             .agrees)
      return;
    last_input = loaded.layer.X;
  }
  for (PlaceDiagnosis* place : places) record_other_step(*place, "residual");
  last_->layer = with_stream(last_->layer, last_input);
  ends_with_own_ = true, stream_is_unknown_ = false;
  last_changes_.clear();
}

/// Whether the saved stages of the model's end agree with the model's own stream although the saved
/// resid_post of the final layer does not, so that this tensor comes from another step.
bool ModelDiagnoser::ends_follow_own_stream() {
  const Tensor own =
      trace(last_->layer, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post);
  const Layer ends = ends_from(own);
  const Reference reference = load_readings(of_ends(ends), files_, effort_, &whole_).front();
  const std::vector<ReferenceStage> targets = targets_in(reference, false);
  if (targets.empty()) return false;
  const Tensor value = trace(ends, {targets[0].stage}, {}, effort_.threads).value(targets[0].stage);
  const double tolerance = tolerance_of(targets[0].stored);
  if (!agreement_of(value, convert(targets[0].value, value.dtype()), tolerance).agrees)
    return false;
  if (!saved_from_other_step(own, tolerance)) return false;
  last_changes_.clear(), stream_is_unknown_ = false;
  return true;
}

/// A saved stage that no change explains may be the same stage of another layer. If it equals that
/// of one layer, the hint names this layer.
void ModelDiagnoser::name_other_layer() {
  if (!unexplained_) return;
  const auto& [id, stage] = *unexplained_;
  const std::string other = other_layer_of_text(model_, id, stage, effort_.threads);
  if (other.empty()) return;
  const auto place = std::ranges::find_if(
      diagnoses_.places, [&, &where = id](const PlaceDiagnosis& one) { return one.id == where; });
  if (place == diagnoses_.places.end()) return;
  place->diagnosis.hints = {
      fmt::format("the reference's {} is that of layer {}", mha::name_of(stage.stage), other)};
}

} // namespace mha
