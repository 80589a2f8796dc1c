#include "diff_run.hpp"

#include "against.hpp"
#include "console.hpp"
#include "describe.hpp"
#include "retype.hpp"
#include <mha/compare/layer_reference.hpp>
#include <mha/files/text.hpp>
#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/render/diff_parts.hpp>
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::app {

namespace {

/// Computes the same layers in float64 if a difference needs them.
ExactPass exact_pass_of(const RunRequest& request) {
  return ExactPass([of_float64 = request]() mutable {
    of_float64.dtype = DType::f64;
    return OpenedModel(of_float64);
  });
}

} // namespace

DiffRun::DiffRun(DiffRunOptions& options, OpenedModel& model)
    : options_(options),
      model_(model),
      form_(form_of(options.output)),
      text_style_(options.output.to_standard_output() ? text_style_of_output(options.common.color)
                                                      : render::TextStyle{}),
      diff_(
          model, ReferenceFiles(options.against),
          {stages_named(options.stages), options.tolerances, options.exact, options.common.threads},
          exact_pass_of(options.request)),
      line_a_layer_(diff_.has_lines()),
      file_(options.output.path),
      sink_(file_.sink()) {
  for (const std::string& note : diff_.notes()) print_note(note, options.common);
}

/// Throws Error if nothing was compared. `before`: the verdict on the preceding layers.
void DiffRun::require_comparison(const std::string& id, const Reference& reference,
                                 const Diff& found, Verdict before) const {
  if (!found.stages.empty()) return;
  // At a model's ends, a name without a layer may refer to a stage of a layer.
  const bool ends = is_whole() && id.empty() && !diff_.is_of_some() && before != Verdict::differs;
  if (reference.has_misshapen() && !ends) return;
  const std::string against = fmt::format("{}", fmt::join(options_.against, " "));
  if (is_whole() && (diff_.is_of_some() || id != model_.chosen().back()))
    return; // the reference of a whole model may have only some layers
  if (is_whole() && holds_weights(diff_.files())) {
    RunRequest theirs = options_.request;
    theirs.sources = options_.against, theirs.settings.clear();
    fail("--against {}: a checkpoint, not computed stages; dump its stages first, then compare "
         "with them: mha-inspect dump {} -o theirs.npz, then --against theirs.npz",
         against, retyped(theirs, ""));
  }
  if (is_whole()) fail_without_stage(against, "model", diff_.coverage());
  const bool one = found.not_compared.size() == 1;
  fail("--against {}: nothing to compare: it has {}, but the sources do not allow computing {}",
       against, fmt::join(found.not_compared, ", "), one ? "it" : "them");
}

void DiffRun::show(const LoadedLayer& loaded, const Reference& reference, const Diff& found,
                   const Outcome& outcome) {
  const auto table = [&] {
    return headline(model_, loaded, text_style_) + "\n" +
           render::diff_table(loaded.layer, found, reference, outcome,
                              wrapped_commands(next_steps(options_, loaded, found), text_style_),
                              text_style_);
  };
  if (line_a_layer_ && !found.stages.empty()) lines_.push_back(render::line_of(loaded.id, found));
  if (form_ == "json")
    objects_.push_back({loaded.id, render::diff_json(loaded.layer, found, reference, outcome)});
  else if (form_ != "table")
    std::ranges::copy(render::stage_lines(loaded.id, loaded.layer, found, outcome),
                      std::back_inserter(rows_));
  else if (line_a_layer_ && found.first && differs_.empty())
    differs_ = "\n" + table();
  else if (!line_a_layer_)
    sink_((first_ ? "" : "\n") + table());
  first_ = false;
}

void DiffRun::layer(const std::string& id) {
  Common& common = options_.common;
  const LoadedLayer loaded = load_layer(model_, id, common);
  require_some_stages(loaded.layer);
  const auto other_order = [&](const Diff* found) {
    return takes_other_order(model_, options_.request, loaded, found, diff_.files(), common);
  };
  Reference reference;
  try {
    CommonEffort effort(common);
    reference = diff_.read(loaded, effort);
  } catch (const Error&) {
    if (other_order(nullptr)) return layer(id);
    throw;
  }
  Diff found = [&] {
    const Stopwatch watch(common.compute_s);
    return diff_.compare(loaded, reference);
  }();
  if (other_order(&found)) return layer(id);
  report_reading(reference, common, form_ == "table" && !is_whole(), false);
  const Verdict before = diff_.verdict();
  const std::optional<Outcome> outcome = diff_.conclude(loaded, reference, found);
  require_comparison(id, reference, found, before);
  if (outcome) show(loaded, reference, found, *outcome); // else the reference lacks this layer
}

/// A sentence on the form of GELU if all layers agree within the rounding of half precision. If the
/// reference uses the other form, that is a difference, and the command that finds its cause is
/// kept.
std::string DiffRun::form_of_gelu() {
  const GeluForms::Verdict form = diff_.form_of_gelu();
  if (form != GeluForms::Verdict::other && form != GeluForms::Verdict::open) return "";
  const std::string sentence = diff_.gelu().sentence();
  if (!line_a_layer_) {
    print_note(sentence, options_.common);
    return "";
  }
  std::string text;
  for (const std::string& line : render::wrapped(sentence + ".", text_style_.width))
    text += line + "\n";
  if (form == GeluForms::Verdict::open) return text;
  differs_ =
      "\n" + wrapped_commands("Find why:   mha-inspect diagnose " + retyped(options_.request, "") +
                                  retyped_against(options_.against) + "\n",
                              text_style_);
  return text;
}

/// Throws Error if the reference lacks a stage of --stage.
void DiffRun::require_stages() const {
  for (Stage stage : diff_.missing_stages())
    fail("--against {}: it lacks {}, which --stage requires", fmt::join(options_.against, " "),
         name_of(stage));
}

/// Notes the reference's layers that were not requested, because the verdict ignores them.
void DiffRun::note_layers() const {
  const std::vector<std::string> left = diff_.other_layers();
  if (!left.empty())
    print_note(
        fmt::format(
            "--against: layer{} {} of the reference {} not requested and not part of the verdict",
            left.size() == 1 ? "" : "s", ranges_of(left), left.size() == 1 ? "was" : "were"),
        options_.common);
}

/// Prints the reason for exit code 2. Beside a difference it is a warning, but the table of a whole
/// model already has it below its lines.
void DiffRun::report_uncompared() const {
  const std::vector<std::string> missed = diff_.missed();
  if (missed.empty() || diff_.verdict() == Verdict::equal) return;
  const std::string text =
      fmt::format("--against: {}{}", is_whole() ? "not compared: " : "", fmt::join(missed, "; "));
  if (diff_.verdict() == Verdict::incomplete)
    print_error(text);
  else if (form_ != "table" || !line_a_layer_)
    print_note(text, options_.common, Severity::warning);
}

Verdict DiffRun::finish() {
  require_stages();
  note_layers();
  if (form_ == "table")
    for (const std::string& note : diff_.coverage().notes()) print_note(note, options_.common);
  const Stopwatch watch(options_.common.write_s);
  const std::string forms = form_of_gelu();
  const auto asked_for = static_cast<std::size_t>( // the model's ends have no number
      std::ranges::count_if(model_.chosen(), [](const std::string& id) { return !id.empty(); }));
  if (form_ == "json")
    sink_(render::diff_json(objects_, diff_.verdict()));
  else if (form_ != "table")
    sink_(render::stage_lines_table(rows_).as(form_, text_style_));
  else if (line_a_layer_)
    sink_(render::layers_table(lines_, asked_for, diff_.coverage(), text_style_) + forms +
          render::coverage_text(diff_.coverage(), text_style_) + differs_);
  file_.finish();
  report_uncompared();
  return diff_.verdict();
}

} // namespace mha::app
