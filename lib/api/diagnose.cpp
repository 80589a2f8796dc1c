#include <mha/diagnose.hpp>

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/compare/readings.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/model_diagnosis.hpp>
#include <mha/diagnose/model_diff.hpp>
#include <mha/load/loaded_words.hpp>
#include <mha/system/words.hpp>

#include <fmt/ranges.h>

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

/// A model's layers for a text. Throws Error for a model whose weights were exchanged.
OpenedModel opened(const Model::State& state, const Tokens& tokens, std::size_t threads) {
  if (!state.edits.empty())
    fail("{}: a model whose weights were exchanged is neither compared nor diagnosed: open it with "
         "them",
         state.folder);
  OpenedModel model(*state.sources, state.texts_of(tokens));
  model.threads = threads;
  return model;
}

/// Loads a model's layers; their notes are kept, and the share of them that was loaded is reported.
std::function<LoadedLayer(const std::string&)> loading(OpenedModel& model,
                                                       const RunOptions& options,
                                                       std::size_t layers,
                                                       std::vector<Note>& notes) {
  return [&model, &options, &notes, layers,
          loaded = std::size_t{0}](const std::string& id) mutable {
    if (options.progress)
      options.progress(std::min(1.0, static_cast<double>(loaded++) / static_cast<double>(layers)));
    LoadedLayer layer = model.load(id);
    std::ranges::move(layer.notes, std::back_inserter(notes));
    return layer;
  };
}

PlaceDifferences differences_of(const LoadedLayer& loaded, std::string place, const Diff& found,
                                const Outcome& outcome) {
  PlaceDifferences differences{std::move(place), words_of(loaded).text(),
                               std::string(name_of(outcome.verdict)), found.first};
  for (const StageDiff& row : found.stages) {
    const Difference& d = row.difference;
    differences.stages.push_back({row.stage, std::string(name_of(row.status)), d.max_abs, d.max_rel,
                                  d.mismatched, d.count, d.cosine, d.at, d.ours, d.theirs,
                                  row.own});
  }
  return differences;
}

/// Compares one layer, if the reference has something of it.
void compare_layer(ModelDiff& diff, const LoadedLayer& loaded, const std::string& place,
                   Effort& effort, Differences& found, std::vector<Note>& notes) {
  const Reference reference = diff.read(loaded, effort);
  Diff differences = diff.compare(loaded, reference);
  const std::optional<Outcome> outcome = diff.conclude(loaded, reference, differences);
  if (!outcome) return;
  if (!diff.is_whole()) {
    Coverage coverage;
    coverage.add("", outcome->compared, reference);
    found.compared = coverage.compared();
    for (const std::string& note : reference.notes) notes.emplace_back(note);
  }
  found.places.push_back(differences_of(loaded, place, differences, *outcome));
}

/// Throws Error where nothing was compared, or a stage that was asked for was not saved.
void conclude(Differences& found, ModelDiff& diff, std::vector<Note> notes) {
  for (const Stage stage : diff.missing_stages())
    fail("{} was asked for and not saved", name_of(stage));
  if (found.places.empty())
    fail_without_stage(fmt::format("{}", fmt::join(diff.files().texts(), " ")),
                       diff.is_whole() ? "model" : "layer", diff.coverage());
  const GeluForms::Verdict form = diff.form_of_gelu();
  if (form == GeluForms::Verdict::other || form == GeluForms::Verdict::open)
    notes.emplace_back(diff.gelu().sentence());
  for (const std::string& note : diff.coverage().notes()) notes.emplace_back(note);
  found.verdict = name_of(diff.verdict());
  if (diff.is_whole()) found.compared = diff.coverage().compared();
  found.not_compared = diff.missed();
  api::report(&found.notes, std::move(notes));
}

DiffRequest request_of(const DiffOptions& asked, std::size_t threads) {
  DiffRequest request;
  request.stages = asked.stages, request.threads = threads;
  request.tolerances.absolute = asked.absolute, request.tolerances.relative = asked.relative;
  return request;
}

} // namespace

Differences diff(const Model& model, const Tokens& tokens, const Saved& saved,
                 const DiffOptions& asked, const RunOptions& options) {
  return api::visiting(options, [&] {
    const Model::State& state = *model.state();
    OpenedModel layers = opened(state, tokens, options.threads);
    const auto in_float64 = [&] {
      Request request = state.sources->request();
      request.dtype = DType::f64;
      return OpenedModel(Sources(std::move(request)), layers.texts());
    };
    ModelDiff diff(layers, files_of(saved), request_of(asked, options.threads),
                   ExactPass(in_float64));
    Effort effort{options.threads};
    std::vector<Note> notes;
    const auto load = loading(layers, options, layers.chosen().size(), notes);
    for (const std::string& note : diff.notes()) notes.emplace_back(note);
    Differences found;
    for (const std::string& id : layers.chosen())
      compare_layer(diff, load(id), name_of_place(id), effort, found, notes);
    conclude(found, diff, std::move(notes));
    return found;
  });
}

Differences diff(const Layer& layer, const Saved& saved, const LayerId& id,
                 const DiffOptions& asked, std::size_t threads) {
  return api::visiting([&] {
    LoadedLayer loaded;
    loaded.id = id.id(), loaded.layer = layer;
    ModelDiff diff(files_of(saved), request_of(asked, threads));
    Effort effort{threads};
    Differences found;
    std::vector<Note> notes;
    compare_layer(diff, loaded, "", effort, found, notes);
    conclude(found, diff, std::move(notes));
    return found;
  });
}

Findings diagnose(const Model& model, const Tokens& tokens, const Saved& saved,
                  const RunOptions& options) {
  return api::visiting(options, [&] {
    const Model::State& state = *model.state();
    OpenedModel layers = opened(state, tokens, options.threads);
    Effort effort{options.threads};
    std::vector<Note> notes;
    DiagnosisCalls calls;
    calls.load = loading(layers, options, state.layers(), notes);
    calls.note = [&](const std::string& text) { notes.emplace_back(text); };
    const ModelDiagnosis diagnosis = diagnose_model(layers, files_of(saved), calls, effort);
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
