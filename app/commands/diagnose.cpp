// diagnose: finds the change of convention under which a layer agrees with a reference.

#include "against.hpp"
#include "commands/commands.hpp"
#include "console.hpp"
#include "describe.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "retype.hpp"
#include <mha/compare/readings.hpp>
#include <mha/compare/verdict.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/model_diagnosis.hpp>
#include <mha/lint/lint.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/render/diagnose.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>

namespace mha::app {

namespace {

struct DiagnoseCommand {
  RunRequest request;
  std::vector<std::string> against;
  OutputOptions output;
  Common common;

  int run();

private:
  bool reads_other_order(OpenedModel& model, const LoadedLayer& loaded,
                         const ReferenceFiles& files);
  int run_model(OpenedModel& model, const render::TextStyle& text_style);
  std::string next_step(const std::string& layer, const Diagnosis& diagnosis) const;
};

/// Adds the files of tensors whose reading changes. A tensor that was not read directly from a file
/// cannot be reproduced by an option.
void fill_in_files(const LoadedLayer& loaded, Diagnosis& diagnosis) {
  for (Change& change : diagnosis.changes) {
    TensorEdit* const edit = change.reproduction.tensor();
    if (!edit) continue;
    const Origin* const origin = find_named(loaded.origins, edit->name);
    const std::size_t tensor = origin ? origin->source.find(": ") : std::string::npos;
    if (loaded.naming != "canonical" || tensor == std::string::npos)
      change.reproduction = {};
    else
      edit->source = origin->source.substr(0, tensor) + ":" + origin->source.substr(tensor + 2);
  }
}

/// Adds the options that reproduce a change to the request; settings replace its own.
void type_reproduction(RunRequest& request, const Edits& edits) {
  for (const SettingEdit& setting : edits.of<SettingEdit>()) {
    std::erase_if(request.settings, [&](const auto& one) { return one.first == setting.name; });
    request.settings.emplace_back(setting.name, setting.shown);
  }
  for (const TensorEdit& tensor : edits.of<TensorEdit>())
    request.sources.push_back(console_text(text_of(tensor)));
}

/// Rounds up to one significant digit.
double rounded_up(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)));
  return std::ceil(value / unit) * unit;
}

std::string proof_of(const RunRequest& request, const std::string& layer,
                     const Diagnosis& diagnosis, const std::vector<std::string>& against,
                     const Common& common) {
  if (!diagnosis.explained || diagnosis.equal) return "";
  RunRequest typed = request;
  for (const Change& change : diagnosis.changes) {
    if (change.reproduction.empty()) return "";
    type_reproduction(typed, change.reproduction);
  }
  std::string words = "mha-inspect diff " + retyped(typed, layer);
  Common quietly = common;
  quietly.quiet = true, quietly.strict = quietly.progress = false;
  try {
    typed.results_given = typed.shows_ends = true;
    OpenedModel model(typed);
    const LoadedLayer loaded = load_layer(model, layer, quietly);
    CommonEffort effort(quietly);
    const Reference reference = load_readings(loaded, ReferenceFiles(against), effort).front();
    Tolerances tolerances;
    for (const bool again : {false, true}) {
      Diff found = diff(loaded.layer, reference, tolerances, common.threads);
      mark_same_tensors(loaded, found);
      const Outcome outcome = outcome_of(loaded.layer, reference, found, {});
      if (outcome.compared.empty() || reference.has_misshapen()) return "";
      if (found.equal())
        return words +
               (outcome.verdict == Verdict::equal
                    ? std::string()
                    : fmt::format(" --stage {}", joined_names(outcome.compared, ","))) +
               (again ? fmt::format(" --atol {:.0e}", *tolerances.absolute) : std::string()) +
               retyped_against(against);
      double largest = 0;
      for (const StageDiff& one : found.stages)
        if (one.difference.mismatched > 0) largest = std::max(largest, one.difference.max_abs);
      if (again || !(largest > 0) || !std::isfinite(largest)) return "";
      tolerances.absolute = rounded_up(largest);
    }
  } catch (const Error&) { // these sources do not allow the options
  }
  return "";
}

/// The command that shows the agreement, if options reproduce all changes.
std::string DiagnoseCommand::next_step(const std::string& layer, const Diagnosis& diagnosis) const {
  const std::string words = proof_of(request, layer, diagnosis, against, common);
  return words.empty() ? "" : "\nSee it: " + words + "\n";
}

/// Diagnoses a whole model: every layer, the embedding and the end.
int DiagnoseCommand::run_model(OpenedModel& model, const render::TextStyle& text_style) {
  const WorkCount work;
  const double before = common.read_s + common.compute_s;
  double wall = 0;
  DiagnosisCalls calls;
  calls.load = [&](const std::string& id) { return load_layer(model, id, common); };
  calls.read = [&](const Reference& reference) { report_reading(reference, common, false, false); };
  calls.note = [&](const std::string& text) { print_note(text, common); };
  const ModelDiagnosis found = [&] {
    const Stopwatch watch(wall);
    CommonEffort effort(common);
    return diagnose_model(model, ReferenceFiles(against), calls, effort);
  }();
  common.compute_s +=
      wall - (common.read_s + common.compute_s - before); // loading is already included
  std::vector<render::LayerDiagnosis> places;
  bool explained = found.not_judged.empty() && !found.coverage.lacks_steps();
  for (const PlaceDiagnosis& place : found.places) {
    places.push_back({place.id, place.diagnosis});
    if (!found.reproduces_everywhere)
      for (Change& change : places.back().diagnosis.changes) change.reproduction = {};
    explained = explained && place.diagnosis.explained;
  }
  if (form_of(output) != "json")
    for (const std::string& note : found.coverage.notes()) print_note(note, common);
  const Stopwatch watch(common.write_s);
  write_text(output.path, form_of(output) == "json"
                              ? render::diagnosis_json(places)
                              : render::model_diagnosis_text(found, model.title(), text_style));
  if (common.timings) common.more_timings = passes_of(work, model, common.threads);
  return explained ? 0 : 1;
}

/// Whether the reference shows that q, k and v have heads and tokens in the other order.
bool DiagnoseCommand::reads_other_order(OpenedModel& model, const LoadedLayer& loaded,
                                        const ReferenceFiles& files) {
  if (loaded.other_order.empty()) return false;
  std::optional<Reference> reference;
  std::optional<Diff> found;
  try {
    CommonEffort effort(common);
    reference = load_readings(loaded, files, effort).front();
    found = diff(loaded.layer, *reference, {}, common.threads);
  } catch (const Error&) { // reported if the other order does not fit either
  }
  return takes_other_order(model, request, loaded, found ? &*found : nullptr, files, common);
}

int DiagnoseCommand::run() {
  require_against("diagnose", against);
  request.shows_ends = true;
  OpenedModel model = open_compared(request, against, common);
  const bool as_json = form_of(output) == "json";
  const render::TextStyle text_style =
      output.to_standard_output() ? text_style_of_output(common.color) : render::TextStyle{};
  if (whole_model_of(model)) return run_model(model, text_style);
  require_layer_of_stages(ReferenceFiles(against), model.chosen().size());
  bool explained = true;
  std::vector<render::LayerDiagnosis> found;
  TextFile file(output.path);
  const render::Sink sink = file.sink();
  for (const std::string& id : std::vector(model.chosen())) { // the model may be reopened
    const ReferenceFiles files(against);
    LoadedLayer loaded = load_layer(model, id, common);
    if (reads_other_order(model, loaded, files)) loaded = load_layer(model, id, common);
    CommonEffort effort(common);
    const std::vector<Reference> readings = load_readings(loaded, files, effort);
    const Stopwatch watch(common.compute_s);
    report_overflow(overflow_of(loaded.layer, common.threads), common);
    auto [best, reference] = best_reading(loaded, readings, common.threads);
    report_reading(reference, common, !as_json);
    found.push_back({id, std::move(best)});
    Diagnosis& diagnosis = found.back().diagnosis;
    fill_in_files(loaded, diagnosis);
    if (diagnosis.unexplained)
      if (const std::string other =
              other_layer_of(request, id, reference, *diagnosis.unexplained, common.threads);
          !other.empty())
        diagnosis.hints = {fmt::format("the reference's {} is that of layer {}",
                                       name_of(*diagnosis.unexplained), other)};
    explained = explained && diagnosis.explained;
    if (!as_json)
      sink((found.size() == 1 ? "" : "\n") + headline(model, loaded, text_style) + "\n" +
           diagnosis_text(diagnosis, text_style) +
           wrapped_commands(next_step(id, diagnosis), text_style));
  }
  {
    const Stopwatch watch(common.write_s);
    if (as_json) sink(diagnosis_json(found));
    file.finish();
  }
  return explained ? 0 : 1;
}

} // namespace

Run declare_diagnose(Cli& cli) {
  const auto diagnose = std::make_shared<DiagnoseCommand>();
  cli.about(
      "Finds the convention in which another implementation differs: the smallest change of this "
      "layer that gives the reference's numbers (a transposed weight, exchanged keys and values, "
      "the scale, the rotary style, the polarity of the mask …; docs/diagnose.md lists them). The "
      "reference may contain several stages, which are explained one after the other, or only the "
      "output. If no single change explains a stage, pairs of changes are tried. Prints the option "
      "that reproduces the reference's numbers, if there is one, and what to change in the other "
      "implementation. Exit code 0: explained or equal; 1: not explained; 2: error.");
  cli.group("The reference");
  add_against(cli, diagnose->against);
  add_output(cli, diagnose->output, {"table", "json"}, "write to a file");
  add_layer(cli, diagnose->request);
  add_common(cli, diagnose->common);
  cli.example(
      "diagnose data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --scale d_model "
      "--quiet --against data/induction/expected/layer1.npz",
      "diagnose from all stages that another implementation saved");
  cli.example("diagnose data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --rope half "
              "--quiet --against output=data/induction/expected/layer1.npz:output --format json",
              "diagnose from the output alone; output for another program");
  return [diagnose] { return diagnose->run(); };
}

} // namespace mha::app
