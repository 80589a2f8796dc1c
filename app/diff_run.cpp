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

/// Computes the same layers in float64, once a difference needs them.
ExactPass exact_pass_of(const RunRequest& request) {
  return ExactPass([exact_request = request]() mutable {
    exact_request.dtype = DType::f64;
    return OpenedModel(exact_request);
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
      one_line_per_layer_(diff_.has_lines()),
      file_(options.output.path),
      sink_(file_.sink()) {
  for (const std::string& note : diff_.notes()) print_note(note, options.common);
}

/// Throws Error if nothing of a layer was compared, although something should have been. `before`
/// is the verdict on the preceding layers.
void DiffRun::require_comparison(const std::string& id, const Reference& reference,
                                 const Diff& diff, Verdict before) const {
  if (!diff.stages.empty()) return;
  // A name without a layer is read as a stage of the model's ends, but a layer may be meant.
  const bool may_name_layers =
      is_whole() && id.empty() && !diff_.has_compared_stages() && before != Verdict::differs;
  if (reference.has_misshapen() && !may_name_layers) return;
  const std::string against = fmt::format("{}", fmt::join(options_.against, " "));
  if (is_whole() && (diff_.has_compared_stages() || id != model_.chosen().back()))
    return; // the reference of a whole model may have only some layers
  if (is_whole() && holds_weights(diff_.files())) {
    RunRequest reference_request = options_.request;
    reference_request.sources = options_.against, reference_request.settings.clear();
    fail("--against {}: it is a checkpoint, and computed stages are expected; dump its stages with "
         "mha-inspect dump {} -o theirs.npz, and give --against theirs.npz",
         against, retyped(reference_request, ""));
  }
  if (is_whole()) fail_without_stage(against, "model", diff_.coverage());
  fail("--against {}: nothing to compare: it has {}, which cannot be computed from the sources",
       against, fmt::join(diff.not_compared, ", "));
}

void DiffRun::show(const LoadedLayer& loaded, const Reference& reference, const Diff& diff,
                   const Outcome& outcome) {
  const auto table = [&] {
    return headline(model_, loaded, text_style_) + "\n" +
           render::diff_table(loaded.layer, diff, reference, outcome,
                              wrapped_commands(next_steps(options_, loaded, diff), text_style_),
                              text_style_);
  };
  if (one_line_per_layer_ && !diff.stages.empty())
    layer_lines_.push_back(render::line_of(loaded.id, diff));
  if (form_ == "json")
    layer_diffs_.push_back({loaded.id, render::diff_json(loaded.layer, diff, reference, outcome)});
  else if (form_ != "table")
    std::ranges::copy(render::stage_lines(loaded.id, loaded.layer, diff, outcome),
                      std::back_inserter(stage_lines_));
  else if (one_line_per_layer_ && diff.first && first_difference_.empty())
    first_difference_ = "\n" + table();
  else if (!one_line_per_layer_)
    sink_((before_first_table_ ? "" : "\n") + table());
  before_first_table_ = false;
}

void DiffRun::compare_layer(const std::string& id) {
  Common& common = options_.common;
  const LoadedLayer loaded = load_layer(model_, id, common);
  require_some_stages(loaded.layer);
  const auto other_order = [&](const Diff* result) {
    return takes_other_order(model_, options_.request, loaded, result, diff_.files(), common);
  };
  Reference reference;
  try {
    CommonEffort effort(common);
    reference = diff_.read(loaded, effort);
  } catch (const Error&) {
    if (other_order(nullptr)) return compare_layer(id);
    throw;
  }
  Diff diff = [&] {
    const Stopwatch watch(common.compute_s);
    return diff_.compare(loaded, reference);
  }();
  if (other_order(&diff)) return compare_layer(id);
  report_reading(reference, common, form_ == "table" && !is_whole(), false);
  const Verdict before = diff_.verdict();
  const std::optional<Outcome> outcome = diff_.conclude(loaded, reference, diff);
  require_comparison(id, reference, diff, before);
  if (outcome) show(loaded, reference, diff, *outcome); // otherwise the reference lacks this layer
}

/// Half-precision rounding hides whether the reference computes GELU by erf or by tanh in a single
/// number, but not in all numbers of a model. If the reference uses the other form, that is a
/// difference. Returns a sentence on this for the table, or prints it as a note; "" if there is
/// nothing to report.
std::string DiffRun::report_gelu() {
  const GeluForms::Verdict form = diff_.form_of_gelu();
  if (form != GeluForms::Verdict::other && form != GeluForms::Verdict::open) return "";
  const std::string sentence = diff_.gelu().sentence();
  if (!one_line_per_layer_) {
    print_note(sentence, options_.common);
    return "";
  }
  std::string text;
  for (const std::string& line : render::wrapped(sentence + ".", text_style_.width))
    text += line + "\n";
  if (form == GeluForms::Verdict::open) return text;
  first_difference_ =
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
  const std::vector<std::string> ignored = diff_.other_layers();
  if (!ignored.empty())
    print_note(
        fmt::format(
            "--against: layer{} {} of the reference {} not requested and {} ignored in the verdict",
            ignored.size() == 1 ? "" : "s", ranges_of(ignored),
            ignored.size() == 1 ? "was" : "were", ignored.size() == 1 ? "is" : "are"),
        options_.common);
}

/// Notes where rounding made the reference choose other experts.
void DiffRun::note_choices() const {
  const std::size_t count = diff_.other_choices();
  if (count > 0)
    print_note(fmt::format("--against: {} of experts {} in the reference, as its own scores have "
                           "{}: rounding decided; layers after {} are computed from its stream",
                           count == 1 ? "one choice" : fmt::format("{} choices", count),
                           count == 1 ? "is another" : "are others", count == 1 ? "it" : "them",
                           count == 1 ? "it" : "them"),
               options_.common);
}

/// Prints what was not compared: as an error if it is the reason for exit code 2, and as a warning
/// if there is also a difference, unless the table of a whole model has it already.
void DiffRun::report_uncompared() const {
  const std::vector<std::string> missed = diff_.missed();
  if (missed.empty() || diff_.verdict() == Verdict::equal) return;
  const std::string text =
      fmt::format("--against: {}{}", is_whole() ? "not compared: " : "", fmt::join(missed, "; "));
  if (diff_.verdict() == Verdict::incomplete)
    print_error(text);
  else if (form_ != "table" || !one_line_per_layer_)
    print_note(text, options_.common, Severity::warning);
}

Verdict DiffRun::finish() {
  require_stages();
  note_layers();
  note_choices();
  if (form_ == "table")
    for (const std::string& note : diff_.coverage().notes()) print_note(note, options_.common);
  const Stopwatch watch(options_.common.write_s);
  const std::string gelu_text = report_gelu();
  // The model's ends have no id, and are not counted as a layer.
  const auto requested_count = static_cast<std::size_t>(
      std::ranges::count_if(model_.chosen(), [](const std::string& id) { return !id.empty(); }));
  if (form_ == "json")
    sink_(render::diff_json(layer_diffs_, diff_.verdict()));
  else if (form_ != "table")
    sink_(render::stage_lines_table(stage_lines_).as(form_, text_style_));
  else if (one_line_per_layer_)
    sink_(render::layers_table(layer_lines_, requested_count, diff_.coverage(), text_style_) +
          gelu_text + render::coverage_text(diff_.coverage(), text_style_) + first_difference_);
  file_.finish();
  report_uncompared();
  return diff_.verdict();
}

} // namespace mha::app
