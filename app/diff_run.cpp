#include "diff_run.hpp"

#include "console.hpp"
#include "describe.hpp"
#include "other_order.hpp"
#include "retype.hpp"
#include <mha/compare/layer_reference.hpp>
#include <mha/compare/settle.hpp>
#include <mha/files/text.hpp>
#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/render/coverage.hpp>
#include <mha/render/text_table.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mha::app {

namespace {

std::vector<Stage> compared_stages(const Diff& found) {
  std::vector<Stage> list;
  for (const StageDiff& row : found.stages) list.push_back(row.stage);
  return list;
}

/// What a layer hands on in the reference, where it agrees.
std::optional<Tensor> agreed_stream(const Diff& found) {
  for (const StageDiff& row : found.stages)
    if (row.stage == Stage::resid_post && row.difference.within) return row.reference->value;
  return std::nullopt;
}

/// What keeps a comparison from being one of the whole reference, in the words of a message.
std::vector<std::string> why_incomplete(const Reference& reference, const Outcome& outcome) {
  if (const std::string heads = reference.about_heads(); !heads.empty()) return {heads};
  if (!outcome.not_compared.empty())
    return {"not compared: " + joined_texts(outcome.not_compared, "; ", &NotCompared::text)};
  if (outcome.compared.empty())
    return {"nothing was compared: the reference's tensors are those that this layer is given"};
  if (outcome.only_inputs)
    return {"nothing behind the inputs was compared: " + joined_names(outcome.compared) + " alone"};
  return {};
}

/// The layers of a whole model that a reference's files speak of.
std::set<std::size_t> layers_in(const ReferenceFiles& files) {
  std::set<std::size_t> numbers;
  for (const std::string& text : files.texts()) {
    const io::Source source = io::parse_source(text);
    if (!source.name.empty() || io::mentions_layer(source)) continue;
    for (const auto& [number, entries] : files.open(source.path)->layers()) numbers.insert(number);
  }
  return numbers;
}

} // namespace

DiffRun::DiffRun(DiffQuestion& question, OpenedModel& model)
    : question_(question),
      model_(model),
      form_(form_of(question.output)),
      stages_(stages_named(question.stages)),
      text_style_(question.output.to_standard_output() ? text_style_of_output(question.common.color)
                                                       : render::TextStyle{}),
      files_(question.against),
      whole_(whole_model_of(model)),
      line_a_layer_(whole_ && model.chosen().size() > 1),
      float64_(question.request),
      file_(question.output.path),
      sink_(file_.sink()) {
  for (const std::string& note : require_same_text(model, files_).notes)
    print_note(note, question.common);
  if (!whole_) require_layer_of_stages(files_, model.chosen().size());
}

/// What the reference has of a layer: of the stages that were asked for, those that it has at all.
Reference DiffRun::read(const LoadedLayer& loaded) {
  Common& common = question_.common;
  CommonEffort effort(common);
  Reference reference = read_or_compute(loaded, files_, effort, whole_ ? &*whole_ : nullptr);
  if (!stages_.empty()) {
    const bool speaks_of_it = !reference.stages.empty() || !reference.ambiguous.empty();
    const std::vector<Stage> missing = choose(reference, stages_);
    if (!line_a_layer_ && !missing.empty())
      fail("--against {}: {} is not in it, which --stage asks for",
           fmt::join(question_.against, " "), joined_names(missing, " or "));
    for (Stage stage : missing)
      if (speaks_of_it && contains(available_stages(loaded.layer), stage))
        reference.not_compared.push_back(
            {loaded.id.empty() ? std::string(name_of(stage))
                               : fmt::format("layers.{}.{}", loaded.id, name_of(stage)),
             "asked for, and not among what the reference has of the layer"});
  }
  const Stopwatch watch(common.compute_s);
  Reference best = std::move(settled(loaded.layer, std::move(reference), common.threads).front());
  for (const ReferenceStage& one : best.stages) found_.add(one.stage);
  for (const NotCompared& one : best.not_compared)
    if (one.misshapen) found_.add(*one.misshapen);
  return best;
}

Diff DiffRun::compared(const LoadedLayer& loaded, const Reference& reference) {
  const Stopwatch watch(question_.common.compute_s);
  const std::size_t threads = question_.common.threads;
  PassContext pass{whole_.has_value(), whole_ && !equal_, nullptr, agreed_ ? &*agreed_ : nullptr,
                   question_.exact,    model_.compute()};
  if (loaded.layer.dtype == DType::f32)
    pass.exact = [&](const std::vector<Stage>& stages) {
      return float64_.stages(loaded.id, stages, threads);
    };
  Diff found = diff(loaded.layer, reference, question_.tolerances, threads,
                    whole_ || question_.exact ? &pass : nullptr);
  if (!whole_) return found;
  if (found.follows)
    judge_alone(loaded.layer, reference, stream_.before(reference), question_.tolerances, threads,
                found);
  if (found.equal() && equal_) {
    const std::optional<Tensor> stream = stream_.before(reference);
    gelu_.add(stream && !loaded.id.empty() ? with_stream(loaded.layer, *stream) : loaded.layer,
              reference, stream || first_layer_, threads);
  }
  first_layer_ = false;
  stream_.pass(loaded.layer, reference);
  agreed_ = agreed_stream(found);
  coverage_.add(loaded.id, compared_stages(found), reference);
  return found;
}

/// Throws Error where nothing at all was compared.
void DiffRun::require_some(const std::string& id, const Reference& reference,
                           const Diff& found) const {
  if (!found.stages.empty()) return;
  // At a model's ends a name without a layer may have been meant as a layer's.
  const bool ends = whole_ && id.empty() && !compared_ && verdict_ != Verdict::differs;
  if (reference.has_misshapen() && !ends) return;
  const std::string against = fmt::format("{}", fmt::join(question_.against, " "));
  if (whole_ && (compared_ || id != model_.chosen().back()))
    return; // of a whole model, a reference may have some layers alone
  if (whole_ && holds_weights(files_)) {
    RunRequest theirs = question_.request;
    theirs.sources = question_.against, theirs.settings.clear();
    fail("--against {}: it is a checkpoint, not what one computed: save its stages, and compare "
         "with them: mha-inspect dump {} -o theirs.npz, then --against theirs.npz",
         against, retyped(theirs, ""));
  }
  if (whole_)
    fail("--against {}: no stage of this model is in it{}: layers.N.STAGE, hidden_states, embed, "
         "final or logits expected, of this text",
         against, coverage_.what_is_left());
  const bool one = found.not_compared.size() == 1;
  fail("--against {}: nothing to compare: {} {} there, but nothing says how to compute {} from "
       "the sources",
       against, fmt::join(found.not_compared, ", "), one ? "is" : "are", one ? "it" : "them");
}

void DiffRun::show(const LoadedLayer& loaded, const Reference& reference, const Diff& found,
                   const Outcome& outcome) {
  const auto table = [&] {
    return headline(model_, loaded, text_style_) + "\n" +
           render::diff_table(loaded.layer, found, reference, outcome,
                              fitted_commands(next_steps(question_, loaded, found), text_style_),
                              text_style_);
  };
  if (line_a_layer_ && !found.stages.empty()) lines_.push_back(render::line_of(loaded.id, found));
  if (form_ == "json")
    objects_.push_back({loaded.id, render::diff_json(loaded.layer, found, reference, outcome)});
  else if (form_ == "csv")
    std::ranges::copy(render::stage_lines(loaded.id, loaded.layer, found, outcome),
                      std::back_inserter(rows_));
  else if (line_a_layer_ && found.first && differs_.empty())
    differs_ = "\n" + table();
  else if (!line_a_layer_)
    sink_((first_ ? "" : "\n") + table());
  first_ = false;
}

void DiffRun::layer(const std::string& id) {
  const LoadedLayer loaded = load_layer(model_, id, question_.common);
  require_some_stages(loaded.layer);
  const auto other_order = [&](const Diff* found) {
    return takes_other_order(model_, question_.request, loaded, found, files_, question_.common);
  };
  Reference reference;
  try {
    reference = read(loaded);
  } catch (const Error&) {
    if (other_order(nullptr)) return layer(id);
    throw;
  }
  Diff found = compared(loaded, reference);
  if (other_order(&found)) return layer(id);
  report_reading(reference, question_.common, form_ == "table" && !whole_, false);
  mark_same_tensors(loaded, found);
  const Outcome outcome = outcome_of(loaded.layer, reference, found, {whole_.has_value(), stages_});
  compared_ = compared_ || !found.stages.empty();
  require_some(id, reference, found);
  const bool nothing = found.stages.empty() && outcome.not_compared.empty();
  if (whole_ && nothing) return; // the reference has other layers alone
  equal_ = equal_ && found.equal();
  for (const std::string& why : why_incomplete(reference, outcome)) missed_.push_back(why);
  verdict_ = worse_of(verdict_, outcome.verdict);
  show(loaded, reference, found, outcome);
}

/// What is said of the form of GELU where all layers agree within half precision's rounding, and
/// what finds its cause. The other form is a difference.
std::string DiffRun::form_of_gelu() {
  const GeluForms::Verdict form = gelu_.verdict();
  if (!equal_ || (form != GeluForms::Verdict::other && form != GeluForms::Verdict::open)) return "";
  if (!line_a_layer_) {
    print_note(gelu_.sentence(), question_.common);
    if (form == GeluForms::Verdict::other) verdict_ = Verdict::differs;
    return "";
  }
  std::string text;
  for (const std::string& line : render::wrapped(gelu_.sentence() + ".", text_style_.width))
    text += line + "\n";
  if (form == GeluForms::Verdict::open) return text;
  verdict_ = Verdict::differs;
  differs_ =
      "\n" + fitted_commands("Find why:   mha-inspect diagnose " + retyped(question_.request, "") +
                                 retyped_against(question_.against) + "\n",
                             text_style_);
  return text;
}

/// Throws Error where a stage that was asked for is nowhere in the reference.
void DiffRun::require_stages() const {
  for (Stage stage : stages_)
    if (!contains(found_, stage))
      fail("--against {}: {} is not in it, which --stage asks for",
           fmt::join(question_.against, " "), name_of(stage));
}

/// Layers that the reference has and nobody asked for are no part of the verdict: that is said.
void DiffRun::note_layers() const {
  std::vector<std::string> left;
  for (std::size_t number : layers_in(files_))
    if ((!whole_ || number < whole_->layers) && (whole_ || !model_.chosen().front().empty()) &&
        std::ranges::count(model_.chosen(), std::to_string(number)) == 0)
      left.push_back(std::to_string(number));
  if (!left.empty())
    print_note(fmt::format("--against: layer{} {} of the reference {} not asked for, and no part "
                           "of the verdict",
                           left.size() == 1 ? "" : "s", ranges_of(left),
                           left.size() == 1 ? "was" : "were"),
               question_.common);
}

/// Exit code 2 has one line that says why; beside a difference it is a warning, but for the lines
/// of a whole model, under which it stands.
void DiffRun::say_what_is_missed() const {
  std::vector<std::string> missed = whole_ ? coverage_.not_compared() : missed_;
  if (missed.empty()) missed = missed_;
  if (missed.empty() || verdict_ == Verdict::equal) return;
  const std::string text =
      fmt::format("--against: {}{}", whole_ ? "not compared: " : "", fmt::join(missed, "; "));
  if (verdict_ == Verdict::incomplete)
    print_error(text);
  else if (form_ != "table" || !line_a_layer_)
    print_note(text, question_.common, Severity::warning);
}

Verdict DiffRun::finish() {
  require_stages();
  note_layers();
  if (form_ == "table")
    for (const std::string& note : coverage_.notes()) print_note(note, question_.common);
  const Stopwatch watch(question_.common.write_s);
  const std::string forms = form_of_gelu();
  const auto asked_for = static_cast<std::size_t>( // the model's end has no number
      std::ranges::count_if(model_.chosen(), [](const std::string& id) { return !id.empty(); }));
  if (form_ == "json")
    sink_(render::diff_json(objects_, verdict_));
  else if (form_ == "csv")
    sink_(render::diff_csv(rows_));
  else if (line_a_layer_)
    sink_(render::layers_table(lines_, asked_for, coverage_, text_style_) + forms +
          render::coverage_text(coverage_, text_style_) + differs_);
  file_.finish();
  say_what_is_missed();
  return verdict_;
}

} // namespace mha::app
