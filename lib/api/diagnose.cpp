#include <mha/diagnose.hpp>

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/compare/readings.hpp>
#include <mha/diagnose/best_reading.hpp>
#include <mha/diagnose/model_diagnosis.hpp>
#include <mha/load/loaded_words.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <iterator>

namespace mha {

namespace {

ReferenceFiles files_of(const Saved& saved) {
  if (saved.files.empty() && saved.tensors.empty())
    fail("nothing is given to compare with: files or tensors expected");
  if (saved.tensors.empty()) return ReferenceFiles(saved.files);
  io::Contents contents;
  contents.name = "the tensors", contents.format = "memory";
  for (const auto& [name, tensor] : saved.tensors) {
    if (tensor.empty()) fail("{}: the tensor is empty: it has neither numbers nor a shape", name);
    contents.tensors.push_back(
        {name, tensor.dtype(), tensor.shape(), false, [kept = tensor] { return kept; }});
  }
  return {saved.files, std::move(contents)};
}

FoundCause cause_of(const Change& change, bool reproduced) {
  FoundCause cause{change.id, stage_of(change), "the reference " + change.did, change.cure, {}};
  if (!reproduced) return cause;
  cause.option = change.reproduction.text().in_words(Wording::command_line);
  for (const SettingEdit& setting : change.reproduction.of<SettingEdit>())
    cause.settings.emplace_back(setting.name, setting.value);
  return cause;
}

std::string text_of_place(const std::vector<Coordinate>& at) {
  return joined_texts(at, " ", [](const Coordinate& one) {
    return fmt::format("{} {}{}", one.word, one.index,
                       one.token ? fmt::format(" '{}'", *one.token) : "");
  });
}

Finding finding_of(std::string place, const LayerWords& words, const Diagnosis& diagnosis,
                   bool reproduced) {
  Finding finding;
  finding.place = std::move(place), finding.layer = words.text();
  finding.equal = diagnosis.equal, finding.explained = diagnosis.explained;
  for (const Change& change : diagnosis.changes)
    finding.causes.push_back(cause_of(change, reproduced));
  finding.same_numbers = diagnosis.same_numbers;
  finding.unexplained = diagnosis.unexplained;
  finding.at = text_of_place(diagnosis.at);
  for (const OtherStep& other : diagnosis.captures) finding.hints.push_back(other.sentence());
  if (!diagnosis.reading.empty()) finding.hints.push_back(diagnosis.reading);
  std::ranges::copy(diagnosis.hints, std::back_inserter(finding.hints));
  for (const Diagnosis::Compared& one : diagnosis.stages)
    finding.stages.push_back({one.stage, one.before.error, one.after.error});
  return finding;
}

std::string name_of_place(const std::string& id) {
  return id.empty() ? "model" : id == "embed" ? id : "layers." + id;
}

/// `all`: whether everything that was saved was judged.
void conclude(Findings& found, const Coverage& coverage, bool all, std::vector<Note> notes) {
  found.equal = all && std::ranges::all_of(found.places, &Finding::equal);
  found.explained = all && std::ranges::all_of(found.places, &Finding::explained);
  found.compared = coverage.compared(), found.not_compared = coverage.not_compared();
  for (const std::string& note : coverage.notes()) notes.emplace_back(note);
  api::report(&found.notes, std::move(notes));
}

} // namespace

Findings diagnose(const Model& model, const Tokens& tokens, const Saved& saved,
                  const RunOptions& options) {
  return api::visiting(options, [&] {
    const Model::State& state = *model.state();
    if (!state.edits.empty())
      fail("{}: a model whose weights were exchanged is not diagnosed: open it with them",
           state.folder);
    OpenedModel opened(*state.sources, state.texts_of(tokens));
    opened.threads = options.threads;
    Effort effort{options.threads};
    std::vector<Note> notes;
    std::size_t loaded = 0;
    DiagnosisCalls calls;
    calls.load = [&](const std::string& id) {
      if (options.progress)
        options.progress(
            std::min(1.0, static_cast<double>(loaded++) / static_cast<double>(state.layers())));
      LoadedLayer layer = opened.load(id);
      std::ranges::move(layer.notes, std::back_inserter(notes));
      return layer;
    };
    calls.note = [&](const std::string& text) { notes.emplace_back(text); };
    const ModelDiagnosis diagnosis = diagnose_model(opened, files_of(saved), calls, effort);
    Findings found;
    for (const PlaceDiagnosis& place : diagnosis.places)
      found.places.push_back(finding_of(name_of_place(place.id), place.words, place.diagnosis,
                                        diagnosis.reproduces_everywhere));
    if (!diagnosis.undecided.empty()) notes.emplace_back(diagnosis.undecided);
    const bool all = diagnosis.not_judged.empty() && !diagnosis.coverage.lacks_steps();
    conclude(found, diagnosis.coverage, all, std::move(notes));
    return found;
  });
}

Findings diagnose(const Layer& layer, const Saved& saved, const LayerId& id, std::size_t threads) {
  return api::visiting([&] {
    LoadedLayer loaded;
    loaded.id = id.id(), loaded.layer = layer;
    Effort effort{threads};
    const auto [diagnosis, reading] =
        best_reading(loaded, load_readings(loaded, files_of(saved), effort), threads);
    Findings found;
    found.places.push_back(finding_of("", words_of(loaded), diagnosis, true));
    std::vector<Stage> compared;
    for (const Diagnosis::Compared& one : diagnosis.stages) compared.push_back(one.stage);
    Coverage coverage;
    coverage.add("", compared, reading);
    conclude(found, coverage, reading.not_compared.empty(), {});
    return found;
  });
}

} // namespace mha
