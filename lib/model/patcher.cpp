#include <mha/model/patcher.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/family.hpp>
#include <mha/naming/place_names.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <utility>

namespace mha {

UnpatchedValues ValueRuns::stage(std::size_t n, Stage stage, const std::string& value) {
  const std::lock_guard hold(lock_);
  const std::tuple key(value, n, stage);
  if (const auto known = stages_.find(key); known != stages_.end()) return known->second;
  std::unique_ptr<Streams>& run = runs_[value];
  if (!run) run = std::make_unique<Streams>(make_(value));
  UnpatchedValues values(run->stage(n, stage));
  if (value != "mean") { // other texts have places of their own
    values.lengths = run->layers().texts().lengths();
    values.tokens = tokens_alone(run->layer(n));
  }
  return stages_.emplace(key, std::move(values)).first->second;
}

const ResolvedEdit& put_on(Layer& layer, StageEdit edit, std::size_t number,
                           const UnpatchedStage& unpatched) {
  if (edit.place.stage == Stage::embed && !layer.ends) edit.place.stage = Stage::resid_pre;
  try {
    layer.patches.add(patch_of(edit, layer, number, unpatched));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(edit.text)) throw;
    fail("{}: {}", edit.text, error.message());
  }
  return layer.patches.list.back();
}

Text texts_named(const std::string& run, const Text& own, const std::string& prefix) {
  const std::string rest = run.substr(run.find_first_not_of(' ', 5));
  Text text;
  text.special = own.special;
  if (rest.starts_with("ids ")) {
    text.ids = {rest.substr(4)};
  } else if (rest.starts_with('@')) {
    text.files = {rest.substr(1)};
    text.each_line = own.each_line;
  } else if (rest.size() >= 2 && rest.front() == '\'' && rest.back() == '\'') {
    text.texts = {unquoted(rest)};
  } else {
    fail("{}: from 'TEXT', from ids N,N… or from @FILE expected", prefix);
  }
  return text;
}

void Patcher::add(const std::string& text) {
  patches_.push_back({parse_edit(text), {}});
}

std::vector<std::string> Patcher::typed() const {
  std::vector<std::string> all;
  for (const Written& patch : patches_) all.push_back(patch.edit.text);
  return all;
}

bool Patcher::is_of(const Written& patch, const Layer& layer, const std::string& id,
                    const Sources& sources) const {
  const std::string& text = patch.edit.text;
  StagePlace place = patch.edit.place;
  if (layer.ends) return is_of_model(place.stage);
  if (is_of_model(place.stage))
    return place.stage == Stage::embed && layer.block && id == sources.layers().front().id;
  const std::vector<std::string>& chosen = sources.chosen();
  if (!place.names_layer()) {
    const auto layers = std::ranges::count_if(chosen, [](const auto& one) { return !one.empty(); });
    if (layers > 1)
      fail(
          "{}: of which layer? Give it as layers.N.{} (or layers.*.{}), or choose one with <layer>",
          text, place.name, place.name);
    return chosen.empty() || chosen.front() == id;
  }
  place.count_from_first(sources.layers().size(), text);
  if (place.layers && sources.layers().size() <= place.layers->second)
    fail("{}: there is no layer {}: the layers are {} to {}", text, place.layers->second,
         sources.layers().front().id, sources.layers().back().id);
  const std::optional<std::size_t> number = naming::layer_number(id);
  return number && place.is_of(*number);
}

/// Keeps the notes about another text that were not reported yet, as for the run's own text.
void Patcher::note_other_text(const std::string& value, const std::vector<Note>& notes,
                              const std::vector<Note>& reported) {
  for (Note note : notes) {
    if (is_one_of(note, reported)) continue;
    note = {message("{}: {}", value, note.message), note.severity};
    if (is_one_of(note, reported_)) continue;
    reported_.push_back(note), unreported_.push_back(std::move(note));
  }
}

UnpatchedStage Patcher::unpatched(const Layer& layer, const std::string& id, const LayerOrigin& run,
                                  const std::vector<Note>& reported) {
  if (!run.weights)
    return [&](Stage stage, const std::string& value) -> UnpatchedValues {
      if (value != "mean")
        fail("{}: a text's run is patched from another text's; this layer's input is a file's, so "
             "give a file of the stage",
             value);
      Tensor& kept = of_files_[{id, stage}];
      if (!kept.empty()) return kept;
      Layer clean = layer;
      clean.patches = {};
      return kept = whole_stage(clean, stage);
    };
  return [&](Stage stage, const std::string& value) {
    if (!runs_ || weights_ != run.weights) {
      weights_ = run.weights;
      // The function must not hold the request, which holds this patcher: neither would ever be
      // freed.
      runs_ = std::make_unique<ValueRuns>(
          [this, own = run.text, sources = run.sources, reported](const std::string& of) {
            const bool is_own = of == "mean";
            const auto texts =
                std::make_shared<const Texts>(weights_, is_own ? own : texts_named(of, own, of));
            if (!is_own) note_other_text(of, texts->notes(), reported);
            return std::make_shared<const TextLayers>(sources, texts);
          });
    }
    const std::vector<std::string>& layers = run.weights->model().layers();
    const auto at = std::ranges::find(layers, id); // the model's end is after the last
    return runs_->stage(static_cast<std::size_t>(at - layers.begin()), stage, value);
  };
}

std::vector<Note> Patcher::patch(Layer& layer, const std::string& id, const LayerOrigin& run,
                                 const std::vector<Note>& reported) {
  for (Written& written : patches_)
    if (is_of(written, layer, id, run.sources))
      written.is_read.push_back(
          is_of_tensor(written.edit)
              ? edit_tensor(layer, written.edit, naming::layer_number(id).value_or(0))
              : put_on(layer, written.edit, naming::layer_number(id).value_or(0),
                       unpatched(layer, id, run, reported))
                    .is_read);
  return std::exchange(unreported_, {});
}

void Patcher::require_read() const {
  for (const Written& written : patches_) {
    if (is_any_read(written.is_read)) continue;
    const StagePlace& place = written.edit.place;
    const TensorInfo* const tensor = tensor_of_place(place.name);
    const std::string stage(tensor ? tensor->name : name_of(place.stage));
    if (written.is_read.empty() && !is_of_model(written.edit.place.stage))
      fail("<patch> '{}': no layer that was computed is meant: name it as layers.N.{}, choose one "
           "from there on with <layer>, or a later stage",
           written.edit.text, stage);
    fail("<patch> '{}': nothing that was computed reads {}; ask for a stage that is computed from "
         "it "
         "(<stages page> shows which)",
         written.edit.text, stage);
  }
}

} // namespace mha
