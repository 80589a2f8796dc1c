#include <mha/model/patcher.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/family.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <utility>

namespace mha {

Text texts_named(const PatchText& patch, const Text& own) {
  const std::string rest = patch.value.substr(patch.value.find_first_not_of(' ', 5));
  Text text;
  text.special = own.special;
  if (rest.starts_with("ids ")) {
    text.ids = {rest.substr(4)};
  } else if (rest.starts_with('@')) {
    text.files = {rest.substr(1)};
    text.each_line = own.each_line;
  } else if (rest.size() >= 2 && rest.front() == '\'' && rest.back() == '\'') {
    std::string word = rest.substr(1, rest.size() - 2);
    for (std::size_t at = 0; (at = word.find("''", at)) != std::string::npos; ++at)
      word.erase(at, 1);
    text.texts = {word};
  } else {
    fail("{}: from 'TEXT', from ids N,N… or from @FILE expected", patch.text);
  }
  return text;
}

void Patcher::add(const std::string& text) {
  patches_.push_back({parse_patch(text), {}});
}

std::vector<std::string> Patcher::typed() const {
  std::vector<std::string> all;
  for (const Written& patch : patches_) all.push_back(patch.text.text);
  return all;
}

bool Patcher::is_of(const Written& patch, const Layer& layer, const std::string& id,
                    const Sources& sources) const {
  const PatchText& text = patch.text;
  if (layer.ends) return is_of_model(text.stage);
  if (is_of_model(text.stage))
    return text.stage == Stage::embed && layer.block && id == sources.layers().front().id;
  const std::vector<std::string>& chosen = sources.chosen();
  if (!text.names_layer()) {
    const auto layers = std::ranges::count_if(chosen, [](const auto& one) { return !one.empty(); });
    if (layers > 1)
      fail("{}: of which layer? Say layers.N.{} (or layers.*.{}), or choose one with <layer>",
           text.text, text.place, text.place);
    return chosen.empty() || chosen.front() == id;
  }
  PlaceLayers place = text;
  place.count_from_first(sources.layers().size(), text.text);
  if (place.layers && sources.layers().size() <= place.layers->second)
    fail("{}: there is no layer {}: the layers are {} to {}", text.text, place.layers->second,
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
    PatchText named;
    named.text = named.value = value;
    clean.text = texts_named(named, request.text);
  }
  OpenedModel unpatched(clean);
  std::vector<std::size_t> lengths;
  if (value != "mean") {
    note_other_text(value, unpatched.texts()->notes(), said);
    lengths = unpatched.texts()->lengths();
  }
  const LoadedLayer loaded = unpatched.load(is_of_model(stage) ? "" : id);
  const UnpatchedValues values(whole_stage(loaded.layer, stage), std::move(lengths));
  return values_.emplace(key, values).first->second;
}

std::vector<Note> Patcher::patch(Layer& layer, const std::string& id, const Sources& sources,
                                 const RunRequest& request, const std::vector<Note>& said) {
  for (Written& written : patches_) {
    if (!is_of(written, layer, id, sources)) continue;
    PatchText text = written.text;
    // What enters the first block is the first layer's stream.
    const bool of_stream = text.stage == Stage::embed && !layer.ends;
    if (of_stream) text.stage = Stage::resid_pre;
    const auto value_of = [&](Stage stage, const std::string& value) {
      return unpatched(request, id, stage, value, said);
    };
    try {
      StagePatch patch = resolve_patch(text, layer, naming::layer_number(id).value_or(0), value_of);
      written.is_read.push_back(patch.is_read);
      layer.patches.add(std::move(patch));
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with(text.text)) throw;
      fail("{}: {}", text.text, error.message());
    }
  }
  return std::exchange(untold_, {});
}

void Patcher::require_read() const {
  for (const Written& written : patches_) {
    if (is_any_read(written.is_read)) continue;
    const std::string stage(name_of(written.text.stage));
    if (written.is_read.empty())
      fail(
          "<patch> '{}': no layer that was computed is meant: say which as layers.N.{}, choose one "
          "from there on with <layer>, or a stage behind it",
          written.text.text, stage);
    fail("<patch> '{}': nothing that was computed reads {}; ask for a stage that is computed from "
         "it "
         "(<stages page> shows which)",
         written.text.text, stage);
  }
}

} // namespace mha
