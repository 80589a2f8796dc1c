// show: an overview of all stages, or the numbers of some.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include <mha/formats/create.hpp>
#include <mha/layer/formula.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/ranks/compute.hpp>
#include <mha/render/overview.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct Show {
  Request request;
  std::vector<std::string> stages;
  Selection selection;
  OutputOptions output;
  std::optional<std::size_t> precision;
  bool matrix = false;
  Common common;

  int run();

private:
  std::string format() const;
  render::Options render_options(const Model& model, const std::string& format) const;
  void overview(const Model& model, const std::string& format);
  void numbers(const Model& model, const std::string& format);
  void npy(const Model& model);
  Trace trace_together(const Layer& layer, const std::vector<Stage>& wanted,
                       const Selection& part) const;
};

/// --format, else the extension of the path, else a table.
std::string Show::format() const {
  if (!output.format.empty()) return output.format;
  if (output.to_standard_output()) return "table";
  const std::size_t dot = output.path.rfind('.');
  const std::string extension = dot == std::string::npos ? "" : output.path.substr(dot);
  if (extension == ".npy") return "npy";
  if (const std::string_view form = form_of_extension(output.path); !form.empty())
    return std::string(form);
  if (extension == ".npz" || extension == ".safetensors")
    fail("{}: show writes text and .npy; `mha-inspect dump` writes {}", output.path, extension);
  fail("{}: the extension names no format (.npy, {}); give --format", output.path,
       form_extensions());
}

render::Options Show::render_options(const Model& model, const std::string& form) const {
  render::Options options;
  options.look = look_of_output(common.color);
  if (!output.to_standard_output()) options.look.color = common.color == Color::always;
  options.precision = precision;
  options.matrix = matrix;
  options.several_layers = model.chosen().size() > 1 && !mentions(output.path, "{layer}");
  if (matrix && form != "csv" && form != "tsv")
    throw UsageError("--matrix is for --format csv and tsv");
  return options;
}

int Show::run() {
  const std::string form = format();
  request.stages = stages, request.shows_ends = true;
  std::optional<Model> model;
  {
    const Stopwatch watch(common.read_s);
    model.emplace(request);
  }
  if (form == "npy")
    npy(*model);
  else if (stages.empty())
    overview(*model, form);
  else
    numbers(*model, form);
  report_timings(common);
  return 0;
}

void Show::overview(const Model& model, const std::string& form) {
  if (matrix) throw UsageError("--matrix needs --stage: an overview is no matrix");
  const render::Options options = render_options(model, form);
  for (std::string_view placeholder : {"{layer}", "{batch}", "{head}"})
    if (mentions(output.path, placeholder))
      fail("{}: an overview is one file; {} needs --stage", output.path, placeholder);
  TextFile file(output.path);
  const render::Sink sink = file.sink();
  std::vector<render::OverviewRow> rows;
  bool first = true;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    const StageSet available = some_stages(layer);
    Summaries summaries(layer, available, selection);
    OverflowWatch overflow(layer);
    {
      const Stopwatch watch(common.compute_s);
      SeveralShareable all;
      all.add(summaries);
      all.add(overflow);
      compute_together(world(), layer, make_plan(layer, available, selection), all, common.threads);
    }
    if (!world().is_first()) continue;
    tell_overflow(overflow.told(layer), common);
    if (form == "table") rows.clear();
    for (const StageInfo& info : mha::stages())
      if (contains(available, info.stage))
        rows.push_back({id, info.stage, summaries.shape(info.stage), layer.dtype,
                        summaries.of(info.stage), formula_of(layer, info.stage)});
    if (form != "table") continue;
    sink((first ? "" : "\n") + headline(model, loaded, options.look) + "\n" +
         overview_table(rows, options));
    first = false;
  }
  if (!world().is_first()) return;
  const Stopwatch watch(common.write_s);
  if (form == "csv") sink(overview_csv(rows, options, ','));
  if (form == "tsv") sink(overview_csv(rows, options, '\t'));
  if (form == "json") sink(overview_json(rows, options, false));
  if (form == "ndjson") sink(overview_json(rows, options, true));
  file.finish();
}

/// Some stages, kept; what other ranks computed is there on the first.
Trace Show::trace_together(const Layer& layer, const std::vector<Stage>& wanted,
                           const Selection& part) const {
  require_axes(layer, wanted, part); // not of what is watched beside them
  Trace kept(layer, wanted, part);
  OverflowWatch overflow(layer);
  SeveralShareable all;
  all.add(kept);
  if (std::any_of(wanted.begin(), wanted.end(), [](Stage stage) { return stage >= Stage::exp; }))
    all.add(overflow);
  compute_together(world(), layer, make_plan(layer, all.wants(), part), all, common.threads);
  if (world().is_first()) tell_overflow(overflow.told(layer), common);
  return kept;
}

void Show::numbers(const Model& model, const std::string& form) {
  render::Options options = render_options(model, form);
  const auto chosen_form =
      std::find_if(render::forms().begin(), render::forms().end(),
                   [&](const render::Form& candidate) { return candidate.name == form; });
  struct Open {
    TextFile file;
    std::unique_ptr<render::Renderer> renderer;
  };
  std::map<std::string, std::unique_ptr<Open>> files;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    std::vector<Stage> wanted = stages_of(layer, stages);
    options.labelled = options.labelled || !layer.tokens.empty() || !layer.key_tokens.empty();
    for (const PlannedFile& file : planned_files(output.path, loaded, selection, wanted, true)) {
      const Trace trace = [&] {
        const Stopwatch watch(common.compute_s);
        return trace_together(layer, wanted, file.selection);
      }();
      if (!world().is_first()) continue;
      const Stopwatch watch(common.write_s);
      std::unique_ptr<Open>& open = files[file.path];
      if (!open) {
        open = std::make_unique<Open>(Open{TextFile(file.path), nullptr});
        open->renderer = chosen_form->make(options, open->file.sink());
      }
      for (Stage stage : wanted)
        open->renderer->add(
            render::make_value(layer, id, stage, file.selection, trace.value(stage)));
    }
  }
  const Stopwatch watch(common.write_s);
  for (auto& [path, open] : files) {
    open->renderer->finish();
    open->file.finish();
  }
}

void Show::npy(const Model& model) {
  if (output.to_standard_output() && output_is_terminal())
    fail("bytes of an .npy do not belong on a terminal; give --output, or pipe them on");
  const bool several_files = mentions(output.path, "{layer}");
  if (model.chosen().size() > 1 && !several_files)
    fail("one .npy holds one stage of one layer; put {{layer}} into the path of --output, or "
         "choose with --layer");
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    std::vector<Stage> wanted = stages_of(loaded.layer, stages);
    if (wanted.size() != 1 || stages.empty())
      throw UsageError("--format npy holds one stage; name it with --stage");
    for (const PlannedFile& file : planned_files(output.path, loaded, selection, wanted, true)) {
      const Trace trace = [&] {
        const Stopwatch watch(common.compute_s);
        return trace_together(loaded.layer, wanted, file.selection);
      }();
      if (!world().is_first()) continue;
      const Stopwatch watch(common.write_s);
      const Tensor& numbers = trace.value(wanted[0]);
      io::Output out;
      out.items.push_back({std::string(name_of(wanted[0])), numbers.dtype(), numbers.shape()});
      flush();
      const std::unique_ptr<io::Writer> writer =
          io::create(file.path.empty() ? "-" : file.path, "npy", out);
      writer->write(0, 0, numbers.raw(), numbers.count());
      writer->finish();
    }
  }
}

} // namespace

Run declare_show(Cli& cli) {
  const auto show = std::make_shared<Show>();
  cli.about("Computes attention step by step and prints it. Without --stage: one line per stage, "
            "with its "
            "shape, formula, smallest, largest and mean value. With --stage: every number of these "
            "stages.");
  add_stages(cli, show->stages);
  add_selection(cli, show->selection);
  add_output(cli, show->output, {"table", "csv", "tsv", "json", "ndjson", "npy"},
             "write to a file; {layer}, {batch} and {head} in PATH write one file each");
  cli.value("--precision", "DIGITS", show->precision,
            "significant digits; default: all in csv and json, 4 of the largest number in a table");
  cli.flag("--matrix", show->matrix, "csv and tsv: bare rows of numbers");
  add_layer(cli, show->request);
  add_common(cli, show->common);
  cli.example("show data/induction --layer 1 X=data/induction/hidden.npz:layers.1",
              "every step of a layer of a checkpoint, one line each");
  cli.example("show data/quickstart.json --stage weights --head 0",
              "the attention weights of the first head");
  cli.example("show data/quickstart.json -s scores,masked --query 2 --tokens 'the cat sat'",
              "two steps of one query, with labels");
  cli.example("show data/quickstart.json -s weights -f csv -o 'weights{head}.csv' --matrix",
              "a matrix per head for a spreadsheet");
  cli.example("show data/quickstart.json -s output -f json", "for another program");
  return [show] { return show->run(); };
}

} // namespace mha::app
