#include <mha/compare/choices.hpp>
#include <mha/diagnose/model_diagnoser.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <algorithm>

namespace mha {

std::vector<Stage> stages_in(const Reference& reference) {
  std::vector<Stage> list;
  for (const ReferenceStage& stage : reference.stages) list.push_back(stage.stage);
  return list;
}

namespace {

/// Whether the reference's short type is the only cause.
bool is_of_precision(const std::vector<Change>& changes) {
  return std::ranges::all_of(
      changes, [](const Change& change) { return change.id.starts_with("precision."); });
}

/// Whether the model's end differs by no more than the rounding of a layer's steps in the
/// reference's short type, for references that do not have the last layer's steps.
bool is_rounding_of_layer(const Diagnosis& diagnosis, const ReferenceStage& target) {
  return is_short(target.stored) && diagnosis.changes.empty() &&
         diagnosis.error_before <= thresholds::rounded_steps * storing_error(target.stored);
}

} // namespace

std::vector<ReferenceStage> targets_in(const Reference& reference, bool embed) {
  std::vector<ReferenceStage> list;
  for (const ReferenceStage& stage : reference.stages)
    if ((stage.stage == Stage::embed) == embed && stage.stage != Stage::resid_pre)
      list.push_back(stage);
  return list;
}

/// Another layer, read once. Trials call this from several threads, and the files have one reader.
std::shared_ptr<const Layer> ModelDiagnoser::other_layer(std::size_t number) {
  if (number >= texts_.layers().size()) return nullptr;
  const std::lock_guard one_reader(reading_others_);
  std::shared_ptr<const Layer>& other = others_[number];
  if (!other) other = std::make_shared<const Layer>(model_.outline(texts_.layers()[number]).layer);
  return other;
}

/// The model's ends with this stream after the last layer.
Layer ModelDiagnoser::ends_from(const Tensor& stream) const {
  auto ends = std::make_shared<ModelEnds>();
  ends->final = texts_.model().last_norm(), ends->head = texts_.model().head();
  const Layer& like = last_->layer;
  const Shape shape{like.dims.B, like.dims.T, like.dims.d_model};
  ends->embed = embed_.reshaped(shape), ends->stream = convert(stream, like.dtype).reshaped(shape);
  LayerInput input;
  input.X = like.dims.batched ? ends->embed : ends->embed.at(0);
  input.labels = like.tokens, input.item_labels = like.item_tokens.lists(),
  input.lengths = like.lengths;
  return layer_of_ends(input, std::move(ends));
}

LoadedLayer ModelDiagnoser::of_ends(const Layer& ends) const {
  LoadedLayer loaded;
  loaded.naming = last_->naming, loaded.layer = ends;
  return loaded;
}

/// The stream after the layer compared last, with the changes found in it.
Tensor ModelDiagnoser::predicted() {
  const Layer layer = changed(last_->layer, last_changes_);
  return trace(layer, {Stage::resid_post}, {}, effort_.threads).value(Stage::resid_post);
}

void ModelDiagnoser::keep(const std::string& id, const LoadedLayer& loaded, Diagnosis diagnosis) {
  for (Change& change : diagnosis.changes)
    if (change.reproduction.tensor()) change.reproduction = {};
  // The input of a layer and the layer itself are one place.
  if (!diagnoses_.places.empty() && diagnoses_.places.back().id == id) {
    if (diagnosis.equal && diagnosis.captures.empty()) return;
    Diagnosis& before = diagnoses_.places.back().diagnosis;
    diagnosis.changes.insert(diagnosis.changes.begin(), before.changes.begin(),
                             before.changes.end());
    diagnosis.stages.insert(diagnosis.stages.begin(), before.stages.begin(), before.stages.end());
    diagnosis.hints.insert(diagnosis.hints.begin(), before.hints.begin(), before.hints.end());
    diagnosis.error_before = std::max(diagnosis.error_before, before.error_before);
    if (!before.explained)
      diagnosis.explained = diagnosis.equal = false, diagnosis.unexplained = before.unexplained,
      diagnosis.at = before.at, diagnosis.ours = before.ours, diagnosis.theirs = before.theirs;
    diagnoses_.places.pop_back();
  }
  diagnoses_.places.push_back({id, words_of(loaded), std::move(diagnosis)});
}

std::pair<Diagnosis, Reference>
ModelDiagnoser::best(const Layer& layer, const std::vector<Reference>& readings, bool fused) {
  return best_reading(layer, readings,
                      [](const Reference& reading) { return targets_in(reading, false); },
                      {fused, effort_.threads, &around_, &likely_});
}

/// Diagnoses the input of the first layer if the reference has it.
void ModelDiagnoser::embedding(const LoadedLayer& first, const Reference& of_first) {
  last_ = first, embed_ = first.layer.X;
  const Layer ends = ends_from(first.layer.X);
  const Reference reference = load_readings(of_ends(ends), files_, effort_, &whole_).front();
  calls_.read(reference);
  std::vector<ReferenceStage> targets = targets_in(reference, true);
  if (targets.empty())
    if (const ReferenceStage* pre = of_first.find(Stage::resid_pre)) {
      targets.push_back(*pre);
      targets.back().stage = Stage::embed;
    }
  last_->layer.block = first.layer.block;
  if (targets.empty()) return;
  Diagnosis diagnosis = diagnose(ends, targets, {false, effort_.threads, &around_, nullptr});
  if (!of_first.find(Stage::resid_pre) && diagnosis.explained) {
    Changes made;
    for (const Change& change : diagnosis.changes) made.push_back(&change);
    last_->layer.X = changed(ends, made).ends->embed;
  }
  keep("embed", first, std::move(diagnosis));
}

/// The diagnosis of the best reading. If nothing explains the layer, a cause before it is searched
/// for, and `layer` gets the changed input.
std::pair<Diagnosis, Reference> ModelDiagnoser::verdict(const LoadedLayer& loaded,
                                                        const std::vector<Reference>& readings,
                                                        bool first, Layer& layer) {
  const bool fused = is_fused(loaded);
  std::pair<Diagnosis, Reference> result = best(layer, readings, fused);
  const bool shown = diagnoses_.places.empty() && !stream_.before(readings.front());
  if (first && shown && !result.first.explained &&
      explain_embedding_from_layer(loaded, targets_in(result.second, false), layer))
    result = best(layer, readings, fused);
  const bool summed = is_sum_ && !readings.front().find(Stage::resid_pre);
  if (summed && !result.first.explained &&
      explain_stream_from_next_layer(targets_in(result.second, false), layer))
    result = best(layer, readings, fused);
  result.first.captures.insert(result.first.captures.begin(), captures_.begin(), captures_.end());
  return result;
}

void ModelDiagnoser::layer(const LoadedLayer& loaded) {
  std::vector<Reference> readings = load_readings(loaded, files_, effort_, &whole_);
  const bool first = !whole_.one_layer && !last_;
  drop_normalised_resid_pre(loaded, first ? std::optional(loaded.layer.X) : stream_.output_before(),
                            readings);
  if (first)
    embedding(loaded, readings.front());
  else
    between(loaded, readings.front());
  std::optional<Tensor> stream = computed_stream(loaded, readings.front());
  if (!stream) stream = stream_.before(readings.front());
  streams_ = streams_ || stream;
  if (stream)
    stream_is_unknown_ = false;
  else if (first)
    stream = last_->layer.X;
  else if (last_ && !whole_.one_layer && !stream_is_unknown_)
    stream = predicted();
  Layer layer = stream ? with_stream(loaded.layer, *stream) : loaded.layer;
  take_choices_of(readings.front(), effort_.threads, layer);
  around_.number = static_cast<std::size_t>(std::ranges::find(texts_.layers(), loaded.id) -
                                            texts_.layers().begin());
  around_.previous = around_.number > 0 && last_ && !stream_is_unknown_
                         ? std::make_shared<const Layer>(plain_form(last_->layer))
                         : nullptr;
  calls_.read(readings.front());
  last_changes_.clear(), kept_changes_.clear();
  const Reference* read = &readings.front();
  std::optional<std::pair<Diagnosis, Reference>> result;
  if (!targets_in(readings.front(), false).empty()) {
    if (stream_is_unknown_) {
      diagnoses_.not_judged += (diagnoses_.not_judged.empty() ? "" : ", ") + loaded.id;
    } else {
      result = verdict(loaded, readings, first, layer);
      read = &result->second;
      kept_changes_ = likely_ = result->first.changes;
    }
  }
  const bool none = !result || result->first.equal || is_of_precision(result->first.changes);
  if (none && (!result || result->first.explained))
    gelu_.add(layer, *read, stream.has_value(), effort_.threads);
  last_ = loaded;
  last_->layer = layer;
  for (const Change& change : kept_changes_) last_changes_.push_back(&change);
  Reference compared = *read;
  if (result)
    for (const OtherStep& other : result->first.captures)
      std::erase_if(compared.stages,
                    [&](const ReferenceStage& one) { return one.stage == other.stage; });
  diagnoses_.coverage.add(loaded.id, stages_in(compared), compared);
  stream_.pass(loaded.layer, compared);
  is_sum_ = stream_.output_before() && !compared.find(Stage::resid_post);
  captures_.clear();
  if (!result) return;
  stream_is_unknown_ = stream_is_unknown_ || !result->first.explained;
  if (!result->first.explained && !unexplained_)
    if (const ReferenceStage* open = compared.find(*result->first.unexplained))
      unexplained_.emplace(loaded.id, *open);
  keep(loaded.id, loaded, std::move(result->first));
}

/// Gives the last layer the reference's choices of experts by the model's end, where the reference
/// does not have the layer's result. Rounding every step may have exchanged some, too.
bool ModelDiagnoser::take_last_choices(const Reference& of_ends) {
  const ReferenceStage* theirs = of_ends.find(Stage::final);
  if (!theirs || theirs->in_part || !is_mixture(last_->layer) || !is_of_precision(kept_changes_))
    return false;
  const auto final_after = [&](const Layer& last) {
    const Tensor stream = whole_stage(last, Stage::resid_post, effort_.threads);
    return whole_stage(ends_from(stream), Stage::final, effort_.threads);
  };
  Layer chosen = last_->layer;
  take_choices_of(theirs->value, theirs->stored, final_after, chosen);
  const double before = distance(final_after(changed(last_->layer, last_changes_)), theirs->value);
  if (distance(final_after(chosen), theirs->value) > before / 2) return false;
  last_->layer = std::move(chosen);
  last_changes_.clear();
  return true;
}

/// Diagnoses the last norm and the head.
void ModelDiagnoser::end() {
  std::optional<Tensor> theirs = stream_.before({});
  if (theirs && (ends_with_own_ || ends_follow_own_stream())) theirs = std::nullopt;
  if (theirs) stream_is_unknown_ = false;
  Layer ends = ends_from(theirs ? *theirs : predicted());
  LoadedLayer loaded = of_ends(ends);
  const std::vector<Reference> readings = load_readings(loaded, files_, effort_, &whole_);
  if (!theirs && last_ && !stream_is_unknown_ && take_last_choices(readings.front()))
    ends = ends_from(predicted()), loaded = of_ends(ends);
  calls_.read(readings.front());
  diagnoses_.coverage.add("", stages_in(readings.front()), readings.front());
  const std::vector<ReferenceStage> targets = targets_in(readings.front(), false);
  gelu_.add(ends, readings.front(), false, effort_.threads);
  if (targets.empty()) return;
  if (stream_is_unknown_ && targets.front().stage != Stage::final) {
    diagnoses_.not_judged +=
        (diagnoses_.not_judged.empty() ? "" : ", ") + std::string("the model's end");
    return;
  }
  const DiagnoseContext context{false, effort_.threads, &around_, &likely_};
  Diagnosis diagnosis = diagnose(ends, targets, {false, effort_.threads, &around_, nullptr});
  // Only the norm or the head shows the last layer's result.
  const bool alone = !theirs && !stream_is_unknown_;
  if (!diagnosis.explained && alone && streams_ && is_rounding_of_layer(diagnosis, targets.front()))
    diagnosis.explained = diagnosis.equal = true, diagnosis.unexplained = {};
  if (!diagnosis.explained && alone && streams_) {
    const Layer& last = last_->layer;
    around_.number = around_.layers - 1;
    const auto open = std::ranges::find_if(
        targets, [&](const ReferenceStage& one) { return one.stage == diagnosis.unexplained; });
    if (auto through = explain_through(last, ends, *open, context)) {
      const bool of_end = std::ranges::any_of(
          through->changes, [](const Change& change) { return stage_of(change) >= Stage::final; });
      keep(of_end ? "" : last_->id, of_end ? loaded : *last_, std::move(*through));
      return;
    }
  }
  if (!diagnosis.explained && alone && !streams_ && diagnoses_.places.empty()) {
    if (auto everywhere = explain_everywhere(outlines(), ends, targets.front(), context))
      diagnosis = std::move(*everywhere);
    else
      diagnosis.hints.emplace_back(
          "from the model's end alone, only single causes are tried, in all layers or in one, and "
          "one layer left out, run twice or exchanged, but not two causes at once, and not rows "
          "before the text (a soft prompt); save hidden_states to see where the difference begins");
  }
  keep("", loaded, std::move(diagnosis));
}

/// All layers, without inputs.
std::vector<Layer> ModelDiagnoser::outlines() const {
  std::vector<Layer> layers;
  for (const std::string& id : texts_.layers()) {
    layers.push_back(model_.outline(id).layer);
    layers.back().X = {};
  }
  return layers;
}

/// Names the other form of GELU, which is visible only over all layers, if nothing but rounding
/// differs in all places.
void ModelDiagnoser::name_form_of_gelu() {
  const GeluForms::Verdict verdict = gelu_.verdict();
  for (const PlaceDiagnosis& place : diagnoses_.places)
    if (!place.diagnosis.explained || !is_of_precision(place.diagnosis.changes)) return;
  if (verdict == GeluForms::Verdict::open) diagnoses_.undecided = gelu_.sentence();
  if (verdict != GeluForms::Verdict::other) return;
  for (PlaceDiagnosis& place : diagnoses_.places) {
    if (place.id.empty() || place.id == "embed" || !place.diagnosis.captures.empty()) continue;
    Diagnosis& diagnosis = place.diagnosis;
    diagnosis.equal = false, diagnosis.changes = {gelu_.cause()},
    diagnosis.hints = {gelu_.sentence()};
    place.words = words_of(*last_);
  }
}

ModelDiagnosis ModelDiagnoser::run() {
  for (const std::string& id : model_.chosen()) {
    if (id.empty()) continue;
    const LoadedLayer loaded = calls_.load(id);
    if (!whole_.one_layer && !last_ && padding_was_attended(loaded)) return std::move(diagnoses_);
    layer(loaded);
  }
  if (!whole_.one_layer)
    apply_other_step_to_final_layer(), detect_saved_layer_inputs(),
        detect_saved_feed_forward_inputs();
  if (!whole_.one_layer && last_) end();
  if (diagnoses_.places.empty())
    fail_without_stage(fmt::format("{}", fmt::join(files_.texts(), " ")),
                       whole_.one_layer ? "layer" : "model", diagnoses_.coverage);
  name_other_layer(), name_form_of_gelu();
  // An option applies to every layer, so that it reproduces only what all of them do.
  const std::string first = [&] {
    for (const PlaceDiagnosis& place : diagnoses_.places)
      if (!place.id.empty() && place.id != "embed" && !place.diagnosis.changes.empty())
        return place.diagnosis.changes[0].did;
    return std::string();
  }();
  diagnoses_.reproduces_everywhere =
      std::ranges::all_of(diagnoses_.places, [&](const PlaceDiagnosis& place) {
        return place.id.empty() || place.id == "embed" ||
               (place.diagnosis.changes.size() == 1 && place.diagnosis.changes[0].did == first);
      });
  return std::move(diagnoses_);
}

ModelDiagnosis diagnose_model(OpenedModel& model, ReferenceFiles against,
                              const DiagnosisCalls& calls, Effort& effort) {
  return ModelDiagnoser(model, std::move(against), calls, effort).run();
}

} // namespace mha
