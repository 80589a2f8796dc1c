// diff: every stage against another implementation's, and the first that differs.

#include "against.hpp"
#include "commands/commands.hpp"
#include "console.hpp"
#include "describe.hpp"
#include "output.hpp"
#include "retype.hpp"
#include "weights_diff.hpp"
#include <mha/compare/streams.hpp>
#include <mha/layer/graph.hpp>
#include <mha/model/pass.hpp>
#include <mha/observe/trace.hpp>
#include <mha/render/diff.hpp>
#include <mha/render/diff_layers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

private:
  std::string next_steps(const LoadedLayer& loaded, const Diff& diff) const;
};

/// The same computation in float64, made when a stage of it is asked for: how far ours is from it
/// is what rounding does.
class ExactPass {
public:
  explicit ExactPass(const Request& request) : request_(on_own_pass(request)) {}

  std::map<Stage, Tensor> stages(const std::string& id, const std::vector<Stage>& wanted,
                                 std::size_t threads) {
    if (!model_) {
      request_.dtype = DType::f64;
      if (request_.inputs) request_.inputs->threads = threads;
      model_.emplace(request_);
    }
    const LoadedLayer loaded = model_->load(id);
    const StageSet available = available_stages(loaded.layer);
    std::vector<Stage> there;
    for (Stage stage : wanted)
      if (contains(available, stage)) there.push_back(stage);
    std::map<Stage, Tensor> values;
    if (there.empty()) return values;
    const Trace kept = trace(loaded.layer, there, {}, threads);
    for (Stage stage : there) values[stage] = kept.value(stage);
    return values;
  }

private:
  Request request_;
  std::optional<Sources> model_;
};

double tolerance_of(std::string_view option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
      !std::isfinite(value))
    fail("{} is '{}': a number from 0 up expected, or STAGE:NUMBER", option, text);
  return value;
}

/// "1e-3" for every stage, "weights:1e-3" for one; commas separate.
void add_tolerance(std::string_view option, const std::string& text, std::optional<double>& all,
                   std::map<Stage, double>& by_stage) {
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string part(rest.substr(0, comma));
    const std::size_t colon = part.find(':');
    const double value =
        tolerance_of(option, colon == std::string::npos ? part : part.substr(colon + 1));
    if (colon == std::string::npos)
      all = value;
    else
      by_stage[stage_named(part.substr(0, colon))] = value;
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
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

int DiffCommand::run() {
  if (weights) return diff_two_checkpoints(request, against, output, common);
  require_against("diff", against);
  if (output.format == "csv" || (output.format.empty() && output.path.ends_with(".csv")))
    throw UsageError("--format csv is for --weights; table, json expected");
  request.results_given = true, request.shows_ends = true;
  if (exact && request.dtype == DType::f64)
    throw UsageError(
        "--exact says how far float32 is from float64: with --dtype f64 it has nothing "
        "to say; leave one of them out");
  const Sources model = open_compared(request, common);
  const bool as_json = output.is_json();
  const render::TextStyle look =
      output.to_standard_output() ? look_of_output(common.color) : render::TextStyle{};
  bool equal = true, compared = false, all_read = true;
  const ReferenceFiles files(against);
  require_same_text(request, files, common);
  const std::optional<WholeModelOfLayer> whole = whole_model_of(request, model);
  if (!whole) require_layer_of_stages(files, model.chosen().size());
  ReferenceStream stream;
  Coverage coverage;
  const bool line_a_layer = whole && model.chosen().size() > 1;
  ExactPass float64(request);
  std::vector<render::LayerLine> lines;
  std::string differs; // the table of the first layer that does
  std::vector<render::LayerDiff> objects;
  TextFile file(output.path);
  const render::Sink sink = file.sink();
  bool first = true;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    some_stages(loaded.layer);
    const Reference reference = load_reference(loaded, files, common, !as_json && !whole,
                                               whole ? &*whole : nullptr, as_json || !line_a_layer);
    const Stopwatch watch(common.compute_s);
    PassContext pass{whole.has_value(), whole && !equal, nullptr, exact};
    if (loaded.layer.dtype == DType::f32)
      pass.exact = [&](const std::vector<Stage>& stages) {
        return float64.stages(id, stages, common.threads);
      };
    Diff found =
        diff(loaded.layer, reference, tolerances, common.threads, whole || exact ? &pass : nullptr);
    if (whole) {
      if (found.follows)
        judge_alone(loaded.layer, reference, stream.before(reference), tolerances, common.threads,
                    found);
      stream.pass(loaded.layer, reference);
      coverage.add(id, compared_stages(found), reference);
    }
    compared = compared || !found.stages.empty();
    all_read = all_read && reference.misshapen.empty() && reference.unread.empty();
    if (found.stages.empty() && whole && (compared || id != model.chosen().back()))
      continue; // of a whole model, a reference may have some layers alone
    if (found.stages.empty() && whole)
      fail("--against {}: no stage of this model is in it{}: layers.N.STAGE, hidden_states, embed, "
           "final or logits expected, of this text",
           fmt::join(against, " "), what_is_left(coverage));
    if (found.stages.empty())
      fail("--against {}: nothing to compare: {} {} there, but nothing says how to compute {} from "
           "the sources",
           fmt::join(against, " "), fmt::join(found.not_compared, ", "),
           found.not_compared.size() == 1 ? "is" : "are",
           found.not_compared.size() == 1 ? "it" : "them");
    equal = equal && found.equal();
    if (line_a_layer) lines.push_back(render::line_of(id, found));
    if (as_json)
      objects.push_back({id, render::diff_json(found, reference)});
    else if (line_a_layer && found.first && differs.empty())
      differs = "\n" + headline(model, loaded, look) + "\n" +
                render::diff_table(loaded.layer, found, reference, next_steps(loaded, found), look);
    else if (!line_a_layer)
      sink((first ? "" : "\n") + headline(model, loaded, look) + "\n" +
           render::diff_table(loaded.layer, found, reference, next_steps(loaded, found), look));
    first = false;
  }
  if (!common.quiet && !as_json)
    for (const std::string& note : coverage.notes()) print_note(note, common.color);
  {
    const Stopwatch watch(common.write_s);
    const auto asked_for = static_cast<std::size_t>( // the model's end has no number
        std::ranges::count_if(model.chosen(), [](const std::string& id) { return !id.empty(); }));
    if (as_json)
      sink(render::diff_json(objects));
    else if (line_a_layer)
      sink(render::layers_table(lines, asked_for, coverage.lacks_steps(), look) +
           coverage_text(coverage, look) + differs);
    file.finish();
  }
  report_timings(common);
  return equal && all_read ? 0 : 1;
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
  cli.flag(
      "--exact", diff->exact,
      "compute everything in float64, too, and say how many times as far from it the reference "
      "is as rounding would be");
  cli.flag("--weights", diff->weights,
           "compare two checkpoints tensor by tensor, whatever their containers and names");
  add_output(cli, diff->output, {"table", "json", "csv"}, "write to a file");
  add_layer(cli, diff->request);
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
