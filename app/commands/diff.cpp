// diff: every stage against another implementation's, and the first that differs.

#include "commands/commands.hpp"
#include "console.hpp"
#include "diff_run.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include <mha/compare/weights.hpp>
#include <mha/render/weights.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha::app {

namespace {

struct DiffCommand : DiffQuestion {
  bool weights = false;

  int run();
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

/// What says something of a layer says nothing of two files' weights.
void require_two_files(const RunRequest& request, const std::vector<std::string>& against) {
  if (!against.empty())
    throw UsageError("--weights compares two sources, A and B: leave out --against");
  if (request.sources.size() != 2)
    throw UsageError(
        fmt::format("--weights compares two sources, A and B, not {}", request.sources.size()));
  for (const std::string& source : request.sources)
    if (!io::parse_source(source).name.empty())
      throw UsageError(fmt::format("{}: --weights compares two files or folders", source));
  if (request.has_text() || !request.settings.empty() || !request.layer.empty() ||
      !request.prefix.empty() || request.patches || request.dtype)
    throw UsageError("--weights compares all tensors of two files: a text, a layer, a patch or a "
                     "setting changes nothing; leave them out");
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
    throw UsageError(
        "--exact says how far float32 is from float64: with --dtype f64 it has nothing "
        "to say; leave one of them out");
  OpenedModel model = open_compared(request, against, common);
  DiffRun layers(*this, model);
  const WorkCount work;
  for (const std::string& id : std::vector(model.chosen())) layers.layer(id); // it may be reopened
  const Verdict verdict = layers.finish();
  if (layers.is_whole() && common.timings)
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
      "that hold stages and no weights are taken as they are: two dumps can be compared, and a "
      "reference that is itself a layer is computed. Exit code 0 is a promise: every tensor of the "
      "reference that has a stage's name was compared, at least one behind the inputs, and all "
      "agree; 1: a number differs, or a stage's shape; 2: something was not compared (--stage says "
      "what has to be), or there was trouble.");
  cli.group("The reference");
  add_against(cli, diff->against);
  cli.list("--stage,-s", "NAME[,NAME]", diff->stages,
           "compare these steps alone; each of them has to be in the reference")
      .offers(Completes::stages);
  add_tolerances(cli, diff);
  cli.flag(
      "--exact", diff->exact,
      "compute everything in float64, too, and say how many times as far from it the reference "
      "is as rounding would be");
  cli.flag("--weights", diff->weights,
           "compare two checkpoints tensor by tensor, whatever their containers and names");
  add_output(cli, diff->output, result_formats(), "write to a file");
  add_layer(cli, diff->request);
  cli.unused({"--stage", "--atol", "--rtol", "--exact", "--tokens", "--key-tokens", "--same-x"},
             [diff] {
               return diff->weights
                          ? std::string("changes nothing of --weights, which compares all tensors "
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
