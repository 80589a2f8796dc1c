#include "proof.hpp"

#include "against.hpp"
#include "console.hpp"
#include "retype.hpp"
#include <mha/compare/verdict.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>

namespace mha::app {

namespace {

/// What reproduces a change, typed after the request: settings replace its own.
void type_reproduction(RunRequest& request, const Edits& edits) {
  for (const SettingEdit& setting : edits.of<SettingEdit>()) {
    std::erase_if(request.settings, [&](const auto& one) { return one.first == setting.name; });
    request.settings.emplace_back(setting.name, setting.shown);
  }
  for (const TensorEdit& tensor : edits.of<TensorEdit>())
    request.sources.push_back(console_text(text_of(tensor)));
}

/// A number of one digit, no less than this.
double rounded_up(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)));
  return std::ceil(value / unit) * unit;
}

} // namespace

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
  } catch (const Error&) { // options that these sources do not allow prove nothing
  }
  return "";
}

} // namespace mha::app
