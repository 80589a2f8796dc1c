#include <mha/model/patcher.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/family.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <utility>

namespace mha {

Text texts_named(const std::string& run, const Text& own, const std::string& said) {
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
    fail("{}: from 'TEXT', from ids N,N… or from @FILE expected", said);
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
      fail("{}: of which layer? Say layers.N.{} (or layers.*.{}), or choose one with <layer>", text,
           place.name, place.name);
    return chosen.empty() || chosen.front() == id;
  }
  place.count_from_first(sources.layers().size(), text);
  if (place.layers && sources.layers().size() <= place.layers->second)
    fail("{}: there is no layer {}: the layers are {} to {}", text, place.layers->second,
         sources.layers().front().id, sources.layers().back().id);
  const std::optional<std::size_t> number = naming::layer_number(id);
  return number && place.is_of(*number);
}

/// What the run's own text has not said.
void Patcher::note_other_text(const std::string& value, const std::vector<Note>& notes,
                              const std::vector<Note>& said) {
  for (Note note : notes) {
    if (is_one_of(note, said)) continue;
    note = {message("{}: {}", value, note.message), note.severity};
    if (is_one_of(note, told_)) continue;
    told_.push_back(note), untold_.push_back(std::move(note));
  }
}

UnpatchedValues Patcher::unpatched(const RunRequest& request, const std::string& id, Stage stage,
                                   const std::string& value, const std::vector<Note>& said) {
  const std::string key = id + "." + std::string(name_of(stage)) + "." + value;
  if (const auto known = values_.find(key); known != values_.end()) return known->second;
  RunRequest clean = request;
  clean.patches = nullptr, clean.layer = id;
  clean.stages = {std::string(name_of(stage))};
  if (value != "mean") {
    if (!clean.has_text())
      fail("{}: a text's run is patched from another text's; this layer's input is a file's, so "
           "give "
           "a file of the stage",
           value);
    clean.text = texts_named(value, request.text, value);
  }
  OpenedModel unpatched(clean);
  std::vector<std::size_t> lengths;
  if (value != "mean") {
    note_other_text(value, unpatched.texts()->notes(), said);
    lengths = unpatched.texts()->lengths();
  }
  const LoadedLayer loaded = unpatched.load(is_of_model(stage) ? "" : id);
  const UnpatchedValues values(whole_stage(loaded.layer, stage), std::move(lengths),
                               tokens_alone(loaded.layer));
  return values_.emplace(key, values).first->second;
}

std::vector<Note> Patcher::patch(Layer& layer, const std::string& id, const Sources& sources,
                                 const RunRequest& request, const std::vector<Note>& said) {
  for (Written& written : patches_) {
    if (!is_of(written, layer, id, sources)) continue;
    Edit edit = written.edit;
    // What enters the first block is the first layer's stream.
    if (edit.place.stage == Stage::embed && !layer.ends) edit.place.stage = Stage::resid_pre;
    const auto value_of = [&](Stage stage, const std::string& value) {
      return unpatched(request, id, stage, value, said);
    };
    try {
      StagePatch patch = patch_of(edit, layer, naming::layer_number(id).value_or(0), value_of);
      written.is_read.push_back(patch.is_read);
      layer.patches.add(std::move(patch));
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with(edit.text)) throw;
      fail("{}: {}", edit.text, error.message());
    }
  }
  return std::exchange(untold_, {});
}

void Patcher::require_read() const {
  for (const Written& written : patches_) {
    if (is_any_read(written.is_read)) continue;
    const std::string stage(name_of(written.edit.place.stage));
    if (written.is_read.empty() && !is_of_model(written.edit.place.stage))
      fail(
          "<patch> '{}': no layer that was computed is meant: say which as layers.N.{}, choose one "
          "from there on with <layer>, or a stage behind it",
          written.edit.text, stage);
    fail("<patch> '{}': nothing that was computed reads {}; ask for a stage that is computed from "
         "it "
         "(<stages page> shows which)",
         written.edit.text, stage);
  }
}

} // namespace mha
