// diff: compares every stage with another implementation's, and finds the first difference.

#include "commands/commands.hpp"
#include "console.hpp"
#include "diff_run.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include <mha/compare/weights.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha::app {

namespace {

struct DiffCommand : DiffRunOptions {
  bool weights = false;

  int run();
};

double tolerance_of(std::string_view option, const std::string& text) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0) || !std::isfinite(*value))
    fail("{} is '{}': a number of at least 0 expected, or STAGE:NUMBER", option, text);
  return *value;
}

/// Reads tolerances separated by commas: "1e-3" for every stage, "weights:1e-3" for one.
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
      throw UsageError(
          fmt::format("{} is set to {} and to {}{}: one tolerance expected; leave one out", option,
                      kept, value, stage.empty() ? "" : fmt::format(" for {}", stage)));
  }
}

/// Throws UsageError unless two files are given, and no option that chooses or changes a layer.
void require_two_files(const RunRequest& request, const std::vector<std::string>& against) {
  if (!against.empty())
    throw UsageError("--weights compares two sources, A and B; leave out --against");
  if (request.sources.size() != 2)
    throw UsageError(
        fmt::format("--weights compares two sources, A and B, not {}", request.sources.size()));
  for (const std::string& source : request.sources)
    if (!io::parse_source(source).name.empty())
      throw UsageError(fmt::format("{}: --weights compares two files or folders", source));
  if (request.has_text() || !request.settings.empty() || !request.layer.empty() ||
      !request.prefix.empty() || request.patches || request.dtype)
    throw UsageError("--weights compares all tensors of two files: a text, a layer, a patch or a "
                     "setting has no effect; leave them out");
}

int diff_two_checkpoints(const RunRequest& request, const std::vector<std::string>& against,
                         const OutputOptions& output, const Common& common) {
  require_two_files(request, against);
  const WeightOptions options{request.naming, request.config, request.gguf_order};
  const auto [a, b] = open_weights(request.sources[0], request.sources[1], options);
  if (request.gguf_order && a.format != "gguf" && b.format != "gguf")
    report_notes({idle_gguf_order()}, common);
  const WeightsDiff diff = diff_weights(a, b);
  const render::TextStyle text_style =
      output.to_standard_output() ? text_style_of_output(common.color) : render::TextStyle{};
  write_text(output.path, render::weights_text(diff, form_of(output), text_style));
  return diff.same() ? 0 : 1;
}

int DiffCommand::run() {
  if (weights) return diff_two_checkpoints(request, against, output, common);
  require_against("diff", against);
  request.results_given = true, request.shows_ends = true;
  request.stages = stages;
  if (exact && request.dtype == DType::f64)
    throw UsageError("--exact measures the distance of float32 from float64, which --dtype f64 "
                     "makes 0; leave one of them out");
  OpenedModel model = open_compared(request, against, common);
  DiffRun diff_run(*this, model);
  const WorkCount work;
  for (const std::string& id : std::vector(model.chosen()))
    diff_run.compare_layer(id); // the model may be reopened
  const Verdict verdict = diff_run.finish();
  if (diff_run.is_whole() && common.timings)
    common.more_timings = passes_of(work, model, common.threads);
  return exit_code_of(verdict);
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
  tolerance("--atol",
            "absolute tolerance, for every stage or for one; default: depends on the types",
            &Tolerances::absolute, &Tolerances::stage_absolute);
  tolerance("--rtol", "relative tolerance, a factor of |reference|", &Tolerances::relative,
            &Tolerances::stage_relative);
}

} // namespace

Run declare_diff(Cli& cli) {
  const auto diff = std::make_shared<DiffCommand>();
  cli.about(
      "Compares every stage that another implementation saved with the layer's, in the order of "
      "the computation, and names the first stage that differs. A stage out of tolerance is also "
      "computed from the reference's own preceding stages: if it then agrees, it is correct and "
      "only inherits an earlier difference. An element agrees if |ours − reference| ≤ atol + rtol "
      "· |reference|, by default with the tolerances of torch.testing.assert_close for the coarser "
      "of the two types and the reference's own precision; in addition, a stage may differ by the "
      "rounding errors that accumulate along the computation. −inf equals itself and a finite mask "
      "constant, NaN equals NaN. Sources with stages and no weights are used directly, so two "
      "dumps can be compared; a reference that is itself a layer is computed. Exit code 0: every "
      "tensor of the reference that has a stage's name was compared, at least one of them is not "
      "an input, and all agree. Exit code 1: a number or a shape differs. Exit code 2: something "
      "was not compared (with --stage, only the named stages must be), or an error occurred.");
  cli.group("The reference");
  add_against(cli, diff->against);
  cli.list("--stage,-s", "NAME[,NAME]", diff->stages,
           "compare only these stages; the reference must contain each of them")
      .offers(Completes::stages);
  add_tolerances(cli, diff);
  cli.flag("--exact", diff->exact,
           "also compute everything in float64, and show the reference's distance from it as a "
           "multiple of the rounding error");
  cli.flag("--weights", diff->weights,
           "compare two checkpoints tensor by tensor, regardless of formats and names");
  add_output(cli, diff->output, result_formats(), "write to a file");
  add_layer(cli, diff->request);
  cli.unused(
      {"--stage", "--atol", "--rtol", "--exact", "--tokens", "--key-tokens", "--same-x"}, [diff] {
        return diff->weights ? std::string("has no effect with --weights, which compares all "
                                           "tensors of two files; leave it out")
                             : "";
      });
  add_common(cli, diff->common);
  cli.example("diff data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --against "
              "data/induction/expected/layer1.npz",
              "compare with a file of PyTorch's stages");
  cli.example("diff data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0 --against "
              "output=data/port/stages.safetensors:attn.out",
              "compare only the output, stored under another name");
  cli.example("diff data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0 --against "
              "data/port/stages.safetensors --atol 1e-4 --rtol weights:1e-2 --format json",
              "set tolerances for every stage and for one; output for a program");
  cli.example("diff data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--against 'data/induction/expected/layer{layer}.npz'",
              "compare every layer");
  cli.example("diff data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0 --against "
              "data/port/stages.safetensors --exact --quiet",
              "check whether a difference is rounding: show both distances from float64");
  cli.example("diff data/bard-gpt2 data/bard-gpt2 --weights",
              "compare two checkpoints: the tensors that differ, and how");
  cli.example(
      "diff data/induction/expected/layer0.npz --against data/induction/expected/layer1.npz",
      "compare two dumps, without weights");
  return [diff] { return diff->run(); };
}

} // namespace mha::app
