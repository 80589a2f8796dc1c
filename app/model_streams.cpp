// The stream of a reference between its layers, and what was saved for it.

#include "model_diagnoser.hpp"
#include <mha/tensor/place.hpp>

#include <algorithm>

namespace mha::app {

/// What the layer before hands on must be what enters this one: else a layer runs unseen between
/// the two, or the saved tensors are of different runs.
void ModelDiagnoser::between(const LoadedLayer& loaded, const Reference& reference) {
  const ReferenceStage* enters = reference.find(Stage::resid_pre);
  if (!enters || !stream_.handed_on()) return;
  constexpr double apart = 0.02;
  const DType dtype = loaded.layer.dtype;
  const Tensor theirs = convert(enters->value, dtype),
               before = convert(*stream_.handed_on(), dtype);
  Diagnosis diagnosis;
  const Agreement handed = agreement_of(before, theirs, tolerance_of(enters->stored));
  if (handed.agrees || handed.error < apart) return;
  if (was_saved_apart(theirs, tolerance_of(enters->stored))) return;
  const Layer again = with_stream(loaded.layer, before);
  const Tensor twice =
      trace(again, {Stage::resid_post}, {}, common_.threads).value(Stage::resid_post);
  Agreement after = agreement_of(twice, theirs, tolerance_of(enters->stored));
  diagnosis.error_before = handed.error;
  if (after.error < apart) {
    Change change;
    change.id = "block.twice", change.touches.add(Stage::resid_pre);
    change.did = fmt::format("runs layer {} twice, and saves its last run", loaded.id);
    change.cure = fmt::format("run layer {} once", loaded.id);
    after.agrees = true;
    diagnosis.explained = true, diagnosis.changes = {change}, diagnosis.error_after = after.error;
    diagnosis.stages.push_back({Stage::resid_pre, handed, after, {}});
  } else {
    diagnosis.unexplained = Stage::resid_pre, diagnosis.error_after = handed.error;
    diagnosis.stages.push_back({Stage::resid_pre, handed, handed, {}});
    diagnosis.ours = handed.ours, diagnosis.theirs = handed.theirs;
    diagnosis.at = place_of(loaded.layer.shape_of(Stage::resid_pre), handed.worst);
    diagnosis.hints.push_back(
        fmt::format("what enters layer {} is not what the layer before it hands on, in the "
                    "reference itself: something runs between the two, or they were saved in "
                    "different runs",
                    loaded.id));
  }
  keep(loaded.id, headline(model_, loaded, look_), loaded.layer, std::move(diagnosis));
}

/// Whether all that is wrong is that tokens attend to the padding around their text, as the model's
/// end shows: then no layer is looked at.
bool ModelDiagnoser::padding_was_attended(const LoadedLayer& first) {
  if (!around_.is_padded()) return false;
  last_ = first, embed_ = first.layer.X;
  const Layer ends = ends_from(embed_);
  const std::vector<Reference> readings = load_readings(of_ends(ends), files_, common_, &whole_);
  const std::vector<ReferenceStage> targets = targets_in(readings.front(), false);
  std::optional<Diagnosis> found;
  if (!targets.empty())
    found = explain_attended_padding(outlines(), ends, targets.front(),
                                     {false, common_.threads, &around_, nullptr});
  if (found) {
    for (const std::string& id : texts_.layers()) {
      const Reference of_layer =
          load_readings(load_layer(model_, id, common_), files_, common_, &whole_).front();
      found_.coverage.add(id, stages_in(of_layer), of_layer);
    }
    found_.coverage.add("", stages_in(readings.front()), readings.front());
    keep("", headline(model_, of_ends(ends), look_), ends, std::move(*found));
  }
  last_.reset();
  return found.has_value();
}

/// What enters the first layer was not saved: the layer shows how the embedding was made otherwise,
/// and is computed from that.
bool ModelDiagnoser::embedding_through(const LoadedLayer& loaded,
                                       const std::vector<ReferenceStage>& known, Layer& layer) {
  const Layer ends = ends_from(last_->layer.X);
  std::optional<Diagnosis> found =
      explain_embedding(ends, layer, known, {false, common_.threads, &around_, nullptr});
  if (!found) return false;
  layer = with_stream(loaded.layer, changed(ends, {&found->changes[0]}).ends->embed);
  keep("embed", headline(model_, loaded, look_), ends, std::move(*found));
  return true;
}

/// The stream between two layers is a sum of what was saved before it: the next layer shows where
/// that was summed otherwise, and is computed from what it was then.
bool ModelDiagnoser::handed_on_through(const std::vector<ReferenceStage>& known, Layer& layer) {
  std::optional<Diagnosis> found =
      explain_handed_on(last_->layer, layer, known, {false, common_.threads, &around_, nullptr});
  if (!found) return false;
  const Layer before = changed(last_->layer, {&found->changes[0]});
  layer = with_stream(
      layer, trace(before, {Stage::resid_post}, {}, common_.threads).value(Stage::resid_post));
  keep(last_->id, headline(model_, *last_, look_), last_->layer, std::move(*found));
  return true;
}

/// What was saved as resid_pre behind the norm: x. Then it is no stream.
void ModelDiagnoser::drop_normed(const LoadedLayer& loaded, const std::optional<Tensor>& before,
                                 std::vector<Reference>& readings) {
  const ReferenceStage* enters = readings.front().find(Stage::resid_pre);
  if (!enters || !before || !has_step(loaded.layer, Stage::x) ||
      loaded.layer.settings.input_norm == InputNorm::none)
    return;
  const DType dtype = loaded.layer.dtype;
  const Tensor theirs = convert(enters->value, dtype);
  const double tolerance = tolerance_of(enters->stored);
  if (agreement_of(convert(*before, dtype).reshaped(theirs.shape()), theirs, tolerance).agrees)
    return;
  const Tensor x =
      trace(with_stream(loaded.layer, *before), {Stage::x}, {}, common_.threads).value(Stage::x);
  if (!agreement_of(x, theirs, tolerance).agrees) return;
  captures_.push_back({Stage::resid_pre, "x"});
  for (Reference& reading : readings)
    std::erase_if(reading.stages,
                  [](const ReferenceStage& one) { return one.stage == Stage::resid_pre; });
}

/// Whether the last layer's resid_post alone is told to be wrong.
bool ModelDiagnoser::last_is_apart() const {
  if (!last_ || !stream_.handed_on() || found_.places.empty() ||
      found_.places.back().id != last_->id)
    return false;
  const Diagnosis& before = found_.places.back().diagnosis;
  return !before.changes.empty() && std::ranges::all_of(before.changes, [](const Change& change) {
    return change.touches == StageSet{Stage::resid_post};
  });
}

/// The stream as the model makes it, where the next layer of the reference was computed from that,
/// and not from what was saved as the last layer's resid_post.
std::optional<Tensor> ModelDiagnoser::own_stream(const LoadedLayer& next,
                                                 const Reference& reference) {
  if (!last_is_apart() || reference.find(Stage::resid_pre)) return std::nullopt;
  const std::vector<ReferenceStage> targets = targets_in(reference, false);
  if (targets.empty()) return std::nullopt;
  const Tensor own =
      trace(last_->layer, {Stage::resid_post}, {}, common_.threads).value(Stage::resid_post);
  const ReferenceStage& target = targets.front();
  const Tensor value =
      trace(with_stream(next.layer, own), {target.stage}, {}, common_.threads).value(target.stage);
  const double tolerance = tolerance_of(target.stored);
  if (!agreement_of(value, convert(target.value, value.dtype()), tolerance).agrees ||
      !was_saved_apart(own, tolerance))
    return std::nullopt;
  last_changes_.clear(), lost_ = false;
  return own;
}

/// Behind layers whose resid_post was saved from another step, the last one's was, too: nothing
/// stands behind it that shows it.
void ModelDiagnoser::judge_last_like_others() {
  const std::size_t count = found_.places.size();
  if (count < 2 || !last_is_apart()) return;
  const std::vector<OtherStep>& before = found_.places[count - 2].diagnosis.captures;
  if (std::ranges::find(before, Stage::resid_post, &OtherStep::stage) == before.end()) return;
  const Tensor own =
      trace(last_->layer, {Stage::resid_post}, {}, common_.threads).value(Stage::resid_post);
  if (!was_saved_apart(own, tolerance_of(own.dtype()))) return;
  ends_with_own_ = true;
  last_changes_.clear(), lost_ = false;
}

/// The last layer's resid_post is told to be apart from the stream, which is right all the same:
/// another step was saved, and nothing is wrong. `next` is the stream behind it.
bool ModelDiagnoser::was_saved_apart(const Tensor& next, double tolerance) {
  if (!last_is_apart()) return false;
  const Tensor ours =
      trace(last_->layer, {Stage::resid_post}, {}, common_.threads).value(Stage::resid_post);
  if (!agreement_of(ours, convert(next, ours.dtype()).reshaped(ours.shape()), tolerance).agrees)
    return false;
  const Layer plain = plain_form(last_->layer);
  const std::string other = other_step_of(
      plain, Stage::resid_post,
      with_given(plain, Stage::resid_post, convert(*stream_.handed_on(), ours.dtype()))
          .given[index_of(Stage::resid_post)],
      common_.threads);
  tell_capture(found_.places.back(), other.empty() ? "no sum of the stream" : other);
  return true;
}

/// A place's resid_post is another step, and nothing else is wrong there.
void ModelDiagnoser::tell_capture(PlaceDiagnosis& place, const std::string& other) {
  Diagnosis& told = place.diagnosis;
  told.captures.push_back({Stage::resid_post, other});
  told.changes.clear(), told.stages.clear(), told.runners_up.clear(), told.same_numbers.clear();
  found_.coverage.remove(place.id, Stage::resid_post);
  told.equal = told.explained = true, told.unexplained = {};
  place.text = place.text.substr(0, place.text.find('\n') + 1) + "\n" +
               render::diagnosis_text(last_->layer, told, look_);
}

/// Every layer's resid_post is what enters it, saved on the way in: then the first layer seems to
/// be skipped, and each other one to run with the weights of the one before.
void ModelDiagnoser::judge_saved_before() {
  const std::vector<std::string>& layers = texts_.layers();
  std::vector<PlaceDiagnosis*> places;
  for (PlaceDiagnosis& place : found_.places)
    if (place.id != "embed") places.push_back(&place);
  if (places.size() < 2 || places.size() != layers.size() || !stream_.handed_on()) return;
  for (std::size_t n = 0; n < places.size(); ++n) {
    const std::vector<Change>& changes = places[n]->diagnosis.changes;
    if (places[n]->id != layers[n] || changes.size() != 1) return;
    const bool as_expected =
        n == 0 ? changes[0].id == "block.skipped"
               : changes[0].did == fmt::format("runs layer {}'s weights in this layer", n - 1);
    if (!as_expected) return;
  }
  for (PlaceDiagnosis* place : places) tell_capture(*place, "resid_pre");
  last_->layer = with_stream(last_->layer, *stream_.handed_on());
  ends_with_own_ = true, lost_ = false;
  last_changes_.clear();
}

/// Every layer's resid_post is what enters its feed-forward, added up: then the first layer seems
/// to lack the feed-forward, and no other one is explained by what was saved before it.
void ModelDiagnoser::judge_saved_between() {
  const std::vector<std::string>& layers = texts_.layers();
  std::vector<PlaceDiagnosis*> places;
  for (PlaceDiagnosis& place : found_.places)
    if (place.id != "embed") places.push_back(&place);
  if (places.size() < 2 || places.size() != layers.size() || !stream_.handed_on()) return;
  const std::vector<Change>& first = places[0]->diagnosis.changes;
  if (first.size() != 1 || (first[0].id != "mlp.missing" && first[0].id != "block.handed.residual"))
    return;
  Tensor last;
  for (std::size_t n = 0; n < layers.size(); ++n) {
    const LoadedLayer loaded = load_layer(model_, layers[n], common_); // on the model's own stream
    const Reference reading = load_readings(loaded, files_, common_, &whole_).front();
    const ReferenceStage* saved = reading.find(Stage::resid_post);
    if (places[n]->id != layers[n] || !saved || reading.find(Stage::resid_pre)) return;
    auto steps = trace(loaded.layer, {Stage::residual, Stage::resid_post}, {}, common_.threads);
    const Tensor own = steps.value(Stage::residual);
    if (!agreement_of(own, convert(saved->value, own.dtype()), tolerance_of(saved->stored)).agrees)
      return;
    last = loaded.layer.X;
  }
  for (PlaceDiagnosis* place : places) tell_capture(*place, "residual");
  last_->layer = with_stream(last_->layer, last);
  ends_with_own_ = true, lost_ = false;
  last_changes_.clear();
}

/// Whether the model's end shows that the last layer's resid_post was saved apart from the stream.
bool ModelDiagnoser::ends_agree_with_own() {
  const Tensor own =
      trace(last_->layer, {Stage::resid_post}, {}, common_.threads).value(Stage::resid_post);
  const Layer ends = ends_from(own);
  const Reference reference = load_readings(of_ends(ends), files_, common_, &whole_).front();
  const std::vector<ReferenceStage> targets = targets_in(reference, false);
  if (targets.empty()) return false;
  const Tensor value = trace(ends, {targets[0].stage}, {}, common_.threads).value(targets[0].stage);
  const double tolerance = tolerance_of(targets[0].stored);
  if (!agreement_of(value, convert(targets[0].value, value.dtype()), tolerance).agrees)
    return false;
  if (!was_saved_apart(own, tolerance)) return false;
  last_changes_.clear(), lost_ = false;
  return true;
}

/// What nothing explains may be another layer's tensor.
void ModelDiagnoser::name_other_layer() {
  if (!open_) return;
  const auto& [id, stage] = *open_;
  const std::string other = other_layer_of_text(request_, id, stage, common_);
  if (other.empty()) return;
  const auto place = std::ranges::find_if(
      found_.places, [&, &where = id](const PlaceDiagnosis& one) { return one.id == where; });
  if (place == found_.places.end()) return;
  place->diagnosis.hints = {
      fmt::format("the reference's {} is that of layer {}", mha::name_of(stage.stage), other)};
  place->text = place->text.substr(0, place->text.find('\n') + 1) + "\n" +
                render::diagnosis_text(open_layer_, place->diagnosis, look_);
}

} // namespace mha::app
