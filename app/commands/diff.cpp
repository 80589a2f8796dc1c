// diff: every stage against another implementation's, and the first that differs.

#include "against.hpp"
#include "commands/commands.hpp"
#include "console.hpp"
#include "describe.hpp"
#include "exact_pass.hpp"
#include "output.hpp"
#include "retype.hpp"
#include "weights_diff.hpp"
#include "work_count.hpp"
#include <mha/compare/streams.hpp>
#include <mha/diagnose/gelu_forms.hpp>
#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>
#include <mha/render/diff.hpp>
#include <mha/render/diff_layers.hpp>
#include <mha/render/text_table.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::app {

namespace {

struct DiffCommand {
  Request request;
  std::vector<std::string> against;
  Tolerances tolerances;
  OutputOptions output;
  bool weights = false, exact = false;
  Common common;

  int run();
  std::string next_steps(const LoadedLayer& loaded, const Diff& diff) const;
};

double tolerance_of(std::string_view option, const std::string& text) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0) || !std::isfinite(*value))
    fail("{} is '{}': a number from 0 up expected, or STAGE:NUMBER", option, text);
  return *value;
}

/// "1e-3" for every stage, "weights:1e-3" for one; commas separate.
void add_tolerance(std::string_view option, const std::string& text, std::optional<double>& all,
                   std::map<Stage, double>& by_stage) {
  for (std::string_view typed : split_at(text, ',')) {
    const std::string part(typed);
    const std::size_t colon = part.find(':');
    const double value =
        tolerance_of(option, colon == std::string::npos ? part : part.substr(colon + 1));
    const std::string stage = colon == std::string::npos ? std::string() : part.substr(0, colon);
    const double kept = stage.empty() ? all.emplace(all.value_or(value))
                                      : by_stage.emplace(stage_named(stage), value).first->second;
    if (kept != value)
      throw UsageError(fmt::format("{} is {} and then {}{}: one tolerance expected; leave one out",
                                   option, kept, value,
                                   stage.empty() ? "" : fmt::format(" for {}", stage)));
  }
}

/// What the file calls a stage that was found in it.
std::string tensor_of(const LoadedLayer& loaded, const std::string& stage) {
  for (const Origin& origin : loaded.origins)
    if (find_stage(origin.name) == stage_named(stage))
      return origin.source.substr(origin.source.rfind(": ") + 2);
  return stage;
}

/// Where to look at the worst element of the first difference, and what finds its cause.
std::string DiffCommand::next_steps(const LoadedLayer& loaded, const Diff& diff) const {
  if (!diff.first) return "";
  const auto row = std::find_if(diff.stages.begin(), diff.stages.end(),
                                [&](const StageDiff& one) { return one.stage == *diff.first; });
  const Layer& layer = loaded.layer;
  std::string place;
  bool query = false;
  std::vector<Dim> letters = info_of(row->stage).letters;
  if (layer.settings.columns && info_of(row->stage).kind != Kind::row)
    std::swap(letters.end()[-1], letters.end()[-2]);
  std::size_t axis = 0;
  if (layer.dims.batched) place += fmt::format(" --batch {}", row->difference.at[axis++]);
  for (Dim letter : letters) {
    const std::size_t i = row->difference.at[axis++];
    const Axis what = axis_of(letter);
    if (what == Axis::head) place += fmt::format(" --head {}", i);
    if (what == Axis::kv_head) place += fmt::format(" --head {}", i * layer.dims.group());
    if (what == Axis::query) place += fmt::format(" --query {}", i), query = true;
    if (what == Axis::key && !query) place += fmt::format(" --key {}", i);
  }
  const std::string sources = retyped(request, loaded.id);
  const std::string stage(name_of(row->stage));
  std::string out = "Look at it: ";
  if (layer.has_given(row->stage) && request.sources.size() == 1)
    out += fmt::format(
        "mha-inspect show {} -s {}{}\n",
        shell_word(fmt::format("{}={}:{}", stage, request.sources[0], tensor_of(loaded, stage))),
        stage, place);
  else if (query && contains(available_stages(layer), Stage::weights))
    out += fmt::format("mha-inspect explain {}{}\n", sources, place);
  else
    out += fmt::format("mha-inspect show {} -s {}{}\n", sources, stage, place);
  const bool whole = request.has_text() && request.layer.empty();
  return out + "Find why:   mha-inspect diagnose " + (whole ? retyped(request, "") : sources) +
         retyped_against(against) + "\n";
}

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

/// One run of the command over the chosen layers: what each of them shows is added up.
class DiffRun {
public:
  DiffRun(DiffCommand& command, OpenedModel& model)
      : command_(command),
        model_(model),
        as_json_(form_of(command.output) == "json"),
        text_style_(command.output.to_standard_output() ? text_style_of_output(command.common.color)
                                                        : render::TextStyle{}),
        files_(command.against),
        whole_(whole_model_of(model)),
        line_a_layer_(whole_ && model.chosen().size() > 1),
        float64_(command.request),
        file_(command.output.path),
        sink_(file_.sink()) {
    require_same_text(model, files_, command.common);
    if (!whole_) require_layer_of_stages(files_, model.chosen().size());
  }

  void layer(const std::string& id);
  /// Writes what is not written yet. Whether everything was read, and is equal.
  bool finish();
  bool is_whole() const { return whole_.has_value(); }

private:
  Diff compared(const LoadedLayer& loaded, const Reference& reference);
  std::string form_of_gelu();
  void require_some(const std::string& id, const Diff& found) const;
  void show(const LoadedLayer& loaded, const Reference& reference, const Diff& found);

  DiffCommand& command_;
  OpenedModel& model_;
  const bool as_json_;
  const render::TextStyle text_style_;
  const ReferenceFiles files_;
  const std::optional<WholeModelOfLayer> whole_;
  const bool line_a_layer_;
  ExactPass float64_;
  TextFile file_;
  const render::Sink sink_;
  bool equal_ = true, compared_ = false, all_read_ = true, first_ = true, first_layer_ = true;
  ReferenceStream stream_;
  std::optional<Tensor> agreed_; ///< what the layer before hands on
  GeluForms gelu_;
  Coverage coverage_;
  std::vector<render::LayerLine> lines_;
  std::string differs_; ///< the table of the first layer that does
  std::vector<render::LayerDiff> objects_;
};

Diff DiffRun::compared(const LoadedLayer& loaded, const Reference& reference) {
  const Stopwatch watch(command_.common.compute_s);
  const std::size_t threads = command_.common.threads;
  PassContext pass{whole_.has_value(), whole_ && !equal_, nullptr, agreed_ ? &*agreed_ : nullptr,
                   command_.exact};
  if (loaded.layer.dtype == DType::f32)
    pass.exact = [&](const std::vector<Stage>& stages) {
      return float64_.stages(loaded.id, stages, threads);
    };
  Diff found = diff(loaded.layer, reference, command_.tolerances, threads,
                    whole_ || command_.exact ? &pass : nullptr);
  if (!whole_) return found;
  if (found.follows)
    judge_alone(loaded.layer, reference, stream_.before(reference), command_.tolerances, threads,
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
void DiffRun::require_some(const std::string& id, const Diff& found) const {
  if (!found.stages.empty()) return;
  const std::string against = fmt::format("{}", fmt::join(command_.against, " "));
  if (whole_ && (compared_ || id != model_.chosen().back()))
    return; // of a whole model, a reference may have some layers alone
  if (whole_)
    fail("--against {}: no stage of this model is in it{}: layers.N.STAGE, hidden_states, embed, "
         "final or logits expected, of this text",
         against, what_is_left(coverage_));
  const bool one = found.not_compared.size() == 1;
  fail("--against {}: nothing to compare: {} {} there, but nothing says how to compute {} from "
       "the sources",
       against, fmt::join(found.not_compared, ", "), one ? "is" : "are", one ? "it" : "them");
}

void DiffRun::show(const LoadedLayer& loaded, const Reference& reference, const Diff& found) {
  const auto table = [&] {
    return headline(model_, loaded, text_style_) + "\n" +
           render::diff_table(loaded.layer, found, reference,
                              fitted_commands(command_.next_steps(loaded, found), text_style_),
                              text_style_);
  };
  if (line_a_layer_) lines_.push_back(render::line_of(loaded.id, found));
  if (as_json_)
    objects_.push_back({loaded.id, render::diff_json(found, reference)});
  else if (line_a_layer_ && found.first && differs_.empty())
    differs_ = "\n" + table();
  else if (!line_a_layer_)
    sink_((first_ ? "" : "\n") + table());
  first_ = false;
}

void DiffRun::layer(const std::string& id) {
  const LoadedLayer loaded = load_layer(model_, id, command_.common);
  require_some_stages(loaded.layer);
  const Reference reference =
      load_reference(loaded, files_, command_.common, !as_json_ && !whole_,
                     whole_ ? &*whole_ : nullptr, as_json_ || !line_a_layer_);
  const Diff found = compared(loaded, reference);
  compared_ = compared_ || !found.stages.empty();
  all_read_ = all_read_ && reference.misshapen.empty() && reference.unread.empty();
  require_some(id, found);
  if (found.stages.empty()) return;
  equal_ = equal_ && found.equal();
  show(loaded, reference, found);
}

/// What is said of the form of GELU where all layers agree within half precision's rounding, and
/// what finds its cause. The other form is a difference.
std::string DiffRun::form_of_gelu() {
  const GeluForms::Verdict verdict = gelu_.verdict();
  if (!equal_ || (verdict != GeluForms::Verdict::other && verdict != GeluForms::Verdict::open))
    return "";
  if (!line_a_layer_) {
    print_note(gelu_.sentence(), command_.common);
    equal_ = verdict != GeluForms::Verdict::other;
    return "";
  }
  std::string text;
  for (const std::string& line : render::wrapped(gelu_.sentence() + ".", text_style_.width))
    text += line + "\n";
  if (verdict == GeluForms::Verdict::open) return text;
  equal_ = false;
  differs_ =
      "\n" + fitted_commands("Find why:   mha-inspect diagnose " + retyped(command_.request, "") +
                                 retyped_against(command_.against) + "\n",
                             text_style_);
  return text;
}

bool DiffRun::finish() {
  if (!as_json_)
    for (const std::string& note : coverage_.notes()) print_note(note, command_.common);
  const Stopwatch watch(command_.common.write_s);
  const std::string forms = form_of_gelu();
  const auto asked_for = static_cast<std::size_t>( // the model's end has no number
      std::ranges::count_if(model_.chosen(), [](const std::string& id) { return !id.empty(); }));
  if (as_json_)
    sink_(render::diff_json(objects_));
  else if (line_a_layer_)
    sink_(render::layers_table(lines_, asked_for, coverage_.lacks_steps(), text_style_) + forms +
          coverage_text(coverage_, text_style_) + differs_);
  file_.finish();
  return equal_ && all_read_;
}

int DiffCommand::run() {
  if (weights) {
    const int code = diff_two_checkpoints(request, against, output, common);
    report_timings(common);
    return code;
  }
  require_against("diff", against);
  if (form_of(output) == "csv")
    throw UsageError("--format csv is for --weights; table, json expected");
  request.results_given = true, request.shows_ends = true;
  if (exact && request.dtype == DType::f64)
    throw UsageError(
        "--exact says how far float32 is from float64: with --dtype f64 it has nothing "
        "to say; leave one of them out");
  OpenedModel model = open_compared(request, against, common);
  DiffRun layers(*this, model);
  const WorkCount work;
  for (const std::string& id : model.chosen()) layers.layer(id);
  const bool equal = layers.finish();
  report_timings(common,
                 layers.is_whole() && common.timings ? passes_of(work, model, common.threads) : "");
  return equal ? 0 : 1;
}

void add_tolerances(Cli& cli, const std::shared_ptr<DiffCommand>& diff) {
  const auto tolerance = [&](const char* name, const char* help, auto all, auto by_stage) {
    Option option;
    option.name = name;
    option.value_name = "NUMBER|STAGE:NUMBER";
    option.help = help;
    option.repeats = true;
    option.set = [diff, name, all, by_stage](const std::string& text) {
      add_tolerance(name, text, diff->tolerances.*all, diff->tolerances.*by_stage);
    };
    cli.add(std::move(option));
  };
  tolerance("--atol", "absolute tolerance, of every stage or of one; default: by the types",
            &Tolerances::absolute, &Tolerances::stage_absolute);
  tolerance("--rtol", "relative tolerance, times |reference|", &Tolerances::relative,
            &Tolerances::stage_relative);
}

} // namespace

Run declare_diff(Cli& cli) {
  const auto diff = std::make_shared<DiffCommand>();
  cli.about(
      "Compares every stage that another implementation saved with the layer's, in the order of "
      "the computation, and names the first step that differs. A step out of tolerance is also "
      "computed from the reference's own stages before it: if it agrees then, it is sound and only "
      "follows from an earlier difference. An element agrees where |ours − reference| ≤ atol + "
      "rtol · |reference|, with torch.testing.assert_close's defaults for the coarser of the two "
      "types, by the reference's own precision; a step beyond them is allowed what rounding grows "
      "to "
      "along the chain. −inf is equal to itself and to a finite mask constant, NaN to NaN. Sources "
      "that "
      "hold stages and no weights are taken as they are: two dumps can be compared. Exit code 0: "
      "equal or close; 1: different, or a stage of another shape; 2: trouble.");
  cli.group("The reference");
  add_against(cli, diff->against);
  add_tolerances(cli, diff);
  cli.flag(
      "--exact", diff->exact,
      "compute everything in float64, too, and say how many times as far from it the reference "
      "is as rounding would be");
  cli.flag("--weights", diff->weights,
           "compare two checkpoints tensor by tensor, whatever their containers and names");
  add_output(cli, diff->output, {"table", "json", "csv"}, "write to a file");
  add_layer(cli, diff->request);
  cli.unused({"--atol", "--rtol", "--exact", "--tokens", "--key-tokens", "--same-x"}, [diff] {
    return diff->weights ? std::string("changes nothing of --weights, which compares all tensors "
                                       "of two files; leave it out")
                         : "";
  });
  add_common(cli, diff->common);
  cli.example("diff data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --against "
              "data/induction/expected/layer1.npz",
              "PyTorch's own steps, a file of them");
  cli.example("diff data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0 --against "
              "output=data/port/stages.safetensors:attn.out",
              "the output alone, under another name");
  cli.example("diff data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0 --against "
              "data/port/stages.safetensors --atol 1e-4 --rtol weights:1e-2 --format json",
              "tolerances of every step and of one; for a program");
  cli.example("diff data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--against 'data/induction/expected/layer{layer}.npz'",
              "every layer");
  cli.example("diff data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0 --against "
              "data/port/stages.safetensors --exact --quiet",
              "is it rounding? ours and the reference's distance from float64");
  cli.example("diff data/bard-gpt2 data/bard-gpt2 --weights",
              "two checkpoints: tensors that differ, and what was done to them");
  cli.example(
      "diff data/induction/expected/layer0.npz --against data/induction/expected/layer1.npz",
      "two dumps, without weights");
  return [diff] { return diff->run(); };
}

} // namespace mha::app
