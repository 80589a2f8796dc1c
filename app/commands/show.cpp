// show: prints an overview of all stages, or all numbers of the chosen stages.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/naming/formula.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/ranks/together.hpp>
#include <mha/render/overview.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

namespace mha::app {

namespace {

/// The overview in one output file, with all layers unless the path has placeholders.
struct OverviewFile {
  std::string text; ///< of the form "table"; the other forms are written from `rows`
  std::vector<render::OverviewRow> rows;
};

struct Show {
  RunRequest request;
  std::vector<std::string> stages;
  Selection selection;
  OutputOptions output;
  std::optional<std::size_t> precision;
  bool matrix = false;
  Common common;

  int run();

private:
  render::Options render_options(OpenedModel& model, const std::string& form) const;
  void print_overview(OpenedModel& model, const std::string& form);
  void note_labels() const;
  void write_overview(const std::string& path, const OverviewFile& contents,
                      const std::string& form, const render::Options& options) const;
  std::deque<Summaries> summaries_of_files(const Layer& layer, const ComputeLayer& compute,
                                           const std::vector<Stage>& wanted,
                                           const std::vector<PlannedFile>& files,
                                           const Selection& layer_selection);
  void print_numbers(OpenedModel& model, const std::string& form);
  void write_npy(OpenedModel& model);
  using UseTrace = std::function<void(const PlannedFile& file, const Trace& trace)>;
  void compute_files(const Layer& layer, const ComputeLayer& compute,
                     const std::vector<Stage>& wanted, const std::vector<PlannedFile>& files,
                     const Selection& layer_selection, const UseTrace& use);
  void compute_traces(const Layer& layer, const ComputeLayer& compute,
                      const std::vector<Stage>& wanted, const Selection& part,
                      std::deque<Trace>& traces);
};

render::Options Show::render_options(OpenedModel& model, const std::string& form) const {
  render::Options options;
  options.text_style = text_style_of(output, common.color);
  options.precision = precision;
  options.matrix = matrix;
  options.several_layers = model.chosen().size() > 1 && !mentions(output.path, "{layer}");
  if (matrix && form != "csv" && form != "tsv")
    throw UsageError("--matrix needs --format csv or tsv");
  return options;
}

int Show::run() {
  const std::string form = form_of(output);
  request.stages = stages, request.shows_ends = true;
  OpenedModel model = open_model(request, common);
  if (form == "npy")
    write_npy(model);
  else if (!stages.empty())
    print_numbers(model, form);
  else
    print_overview(model, form), note_labels();
  return 0;
}

/// Prints a note if token labels are given, because the overview does not show them.
void Show::note_labels() const {
  if (common.quiet || (request.tokens.empty() && request.key_tokens.empty())) return;
  print_note(fmt::format("{}: the overview shows no token labels; use -s STAGE to see them",
                         request.tokens.empty() ? "--key-tokens" : "--tokens"),
             common.color);
}

void Show::write_overview(const std::string& path, const OverviewFile& contents,
                          const std::string& form, const render::Options& options) const {
  TextFile file(path);
  const render::Sink sink = file.sink();
  if (form == "table" && !output.to_standard_output()) sink(contents.text);
  if (form != "table") sink(overview_text(contents.rows, options, form));
  file.finish();
}

/// Summarises the stages for every file in a single computation.
std::deque<Summaries> Show::summaries_of_files(const Layer& layer, const ComputeLayer& compute,
                                               const std::vector<Stage>& wanted,
                                               const std::vector<PlannedFile>& files,
                                               const Selection& layer_selection) {
  const StageSet set(wanted);
  std::deque<Summaries> summaries;
  if (files.empty()) return summaries;
  OverflowWatch overflow(layer);
  SeveralMergeable observers;
  for (const PlannedFile& file : files) {
    require_axes(layer, wanted, file.selection); // not of stages that only observers want
    observers.add(summaries.emplace_back(layer, set, file.selection));
  }
  if (contains(set, Stage::weights)) observers.add(overflow);
  {
    const Stopwatch watch(common.compute_s);
    compute_together(world(), layer, make_plan(layer, observers.wants(), layer_selection),
                     observers, common.threads, compute);
  }
  if (!world().is_first()) return summaries;
  Message problem = overflow.report(layer); // empty if nothing was observed
  for (const Summaries& file_summaries : summaries)
    if (problem.empty())
      problem =
          not_finite_results(layer, wanted, [&](Stage stage) { return file_summaries.of(stage); });
  report_overflow(problem, common);
  return summaries;
}

void Show::print_overview(OpenedModel& model, const std::string& form) {
  if (matrix) throw UsageError("--matrix needs --stage: an overview is not a matrix");
  const render::Options options = render_options(model, form);
  std::map<std::string, OverviewFile> files;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    const StageSet available = require_some_stages(layer);
    const Selection layer_selection = selection_of(loaded, selection, model.chosen().size());
    if (id == model.chosen().front()) note_texts_without_selection(layer, layer_selection, common);
    std::vector<Stage> wanted(available.begin(), available.end());
    const std::vector<PlannedFile> planned =
        planned_files(output.path, loaded, layer_selection, wanted, false);
    const std::deque<Summaries> summaries =
        summaries_of_files(layer, model.compute(), wanted, planned, layer_selection);
    for (std::size_t i = 0; world().is_first() && i < planned.size(); ++i) {
      OverviewFile& contents = files[planned[i].path];
      if (form == "table") contents.rows.clear();
      for (Stage stage : wanted)
        contents.rows.push_back({id, stage, summaries[i].shape(stage), layer.dtype,
                                 summaries[i].of(stage), formula_of(layer, stage)});
      if (form != "table") continue;
      std::string text = headline(model, loaded, options.text_style) + "\n" +
                         overview_text(contents.rows, options, form);
      if (!contents.text.empty()) text.insert(0, "\n");
      // Print each layer immediately after computing it.
      if (output.to_standard_output()) TextFile(output.path).sink()(text);
      contents.text += text;
    }
  }
  const Stopwatch watch(common.write_s);
  for (const auto& [path, contents] : files) write_overview(path, contents, form, options);
}

/// Computes the stages of a layer for each file. Files that fit in memory together are computed
/// together, because q, k and v would otherwise be computed again for each.
void Show::compute_files(const Layer& layer, const ComputeLayer& compute,
                         const std::vector<Stage>& wanted, const std::vector<PlannedFile>& files,
                         const Selection& layer_selection, const UseTrace& use) {
  constexpr std::size_t max_bytes_together = std::size_t{1} << 30;
  std::size_t bytes = 0;
  for (const Stage stage : wanted)
    bytes += count_of(layer.shape_of(stage)) * size_of(layer.dtype_of(stage));
  const std::size_t batch_size = bytes <= max_bytes_together ? files.size() : 1;
  for (std::size_t first = 0; first < files.size(); first += batch_size) {
    std::deque<Trace> traces;
    for (std::size_t i = first; i < first + batch_size; ++i) {
      require_axes(layer, wanted, files[i].selection); // not of stages that only observers want
      traces.emplace_back(layer, wanted, files[i].selection);
    }
    compute_traces(layer, compute, wanted,
                   batch_size == 1 ? files[first].selection : layer_selection, traces);
    for (std::size_t i = 0; world().is_first() && i < batch_size; ++i)
      use(files[first + i], traces[i]);
  }
}

/// Computes the stages of all traces together. The first rank gets the results of the others.
void Show::compute_traces(const Layer& layer, const ComputeLayer& compute,
                          const std::vector<Stage>& wanted, const Selection& part,
                          std::deque<Trace>& traces) {
  const Stopwatch watch(common.compute_s);
  OverflowWatch overflow(layer);
  SeveralMergeable observers;
  for (Trace& trace : traces) observers.add(trace);
  if (std::any_of(wanted.begin(), wanted.end(),
                  [](Stage stage) { return follows(stage, Stage::exp); }))
    observers.add(overflow);
  compute_together(world(), layer, make_plan(layer, observers.wants(), part), observers,
                   common.threads, compute);
  if (!world().is_first()) return;
  Message problem = overflow.report(layer);
  for (const Trace& trace : traces)
    if (problem.empty())
      problem = not_finite_results(layer, wanted,
                                   [&](Stage stage) { return summary_of(trace.value(stage)); });
  report_overflow(problem, common);
}

/// Labels the columns of logits, which are tokens of the vocabulary, with the tokens' texts.
void label_with_tokens(render::Value& value, const Texts* texts) {
  if (!texts || !value.col.exists()) return;
  value.col.of_items.clear(); // all items share one vocabulary
  for (std::size_t id : value.col.positions)
    value.col.labels.push_back(texts->plain(static_cast<int>(id)));
}

/// Whether an axis of a stage is that of queries or keys.
bool has_token_axis(Stage stage) {
  return std::ranges::any_of(info_of(stage).letters, [](Dim letter) {
    return axis_of(letter) == Axis::query || axis_of(letter) == Axis::key;
  });
}

void Show::print_numbers(OpenedModel& model, const std::string& form) {
  render::Options options = render_options(model, form);
  const auto chosen_form =
      std::find_if(render::forms().begin(), render::forms().end(),
                   [&](const render::Form& candidate) { return candidate.name == form; });
  struct OpenFile {
    TextFile file;
    std::unique_ptr<render::Renderer> renderer;
  };
  std::map<std::string, std::unique_ptr<OpenFile>> files;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    std::vector<Stage> wanted = stages_of(layer, stages);
    options.labelled = options.labelled || (std::ranges::any_of(wanted, has_token_axis) &&
                                            (!layer.tokens.empty() || !layer.key_tokens.empty()));
    const Selection layer_selection = selection_of(loaded, selection, model.chosen().size());
    if (id == model.chosen().front()) note_texts_without_selection(layer, layer_selection, common);
    const std::vector<PlannedFile> planned =
        planned_files(output.path, loaded, layer_selection, wanted, true);
    compute_files(layer, model.compute(), wanted, planned, layer_selection,
                  [&](const PlannedFile& file, const Trace& trace) {
                    const Stopwatch watch(common.write_s);
                    std::unique_ptr<OpenFile>& open = files[file.path];
                    if (!open) {
                      open = std::make_unique<OpenFile>(OpenFile{TextFile(file.path), nullptr});
                      open->renderer = chosen_form->make(options, open->file.sink());
                    }
                    for (Stage stage : wanted) {
                      render::Value value =
                          render::make_value(layer, id, stage, file.selection, trace.value(stage));
                      if (stage == Stage::logits) label_with_tokens(value, model.texts().get());
                      open->renderer->add(value);
                    }
                  });
  }
  const Stopwatch watch(common.write_s);
  for (auto& [path, open] : files) {
    open->renderer->finish();
    open->file.finish();
  }
}

void Show::write_npy(OpenedModel& model) {
  if (output.to_standard_output() && output_is_terminal())
    fail(".npy is binary and is not written to a terminal; give --output, or pipe it into a "
         "program");
  const bool several_files = mentions(output.path, "{layer}");
  if (model.chosen().size() > 1 && !several_files)
    fail("an .npy file contains one stage of one layer; use {{layer}} in the path of --output, or "
         "choose a layer with --layer");
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    std::vector<Stage> wanted = stages_of(loaded.layer, stages);
    if (wanted.size() != 1 || stages.empty())
      throw UsageError("--format npy writes one stage; name it with --stage");
    const std::vector<PlannedFile> planned =
        planned_files(output.path, loaded, selection, wanted, true);
    compute_files(loaded.layer, model.compute(), wanted, planned, selection.placed(loaded.layer),
                  [&](const PlannedFile& file, const Trace& trace) {
                    const Stopwatch watch(common.write_s);
                    write_arrays(file.path, "npy",
                                 {{std::string(name_of(wanted[0])), trace.value(wanted[0])}});
                  });
  }
}

} // namespace

Run declare_show(Cli& cli) {
  const auto show = std::make_shared<Show>();
  cli.about(
      "Computes attention step by step and prints the results. Without --stage, prints one line "
      "for each stage: its shape, its formula, and its smallest, largest and mean value. With "
      "--stage, prints every number of the named stages.");
  add_stages(cli, show->stages);
  add_selection(cli, show->selection);
  add_output(cli, show->output, {"table", "csv", "tsv", "json", "ndjson", "npy"},
             "write to a file; {layer}, {batch} and {head} in PATH write one file for each",
             all_placeholders);
  cli.value("--precision", "DIGITS", show->precision,
            "number of significant digits; default: all in csv and json, 4 for the largest number "
            "of a table");
  cli.flag("--matrix", show->matrix, "in csv and tsv, print only rows of numbers");
  add_layer(cli, show->request);
  add_common(cli, show->common);
  cli.example("show data/induction --layer 1 X=data/induction/hidden.npz:layers.1",
              "show every stage of a layer of a checkpoint, one line each");
  cli.example("show data/quickstart.json --stage weights --head 0",
              "print the attention weights of the first head");
  cli.example("show data/quickstart.json -s scores,masked --query 2 --tokens 'the cat sat'",
              "print two stages for one query, with labels");
  cli.example("show data/quickstart.json -s weights -f csv -o 'weights{head}.csv' --matrix",
              "write a matrix for each head, for a spreadsheet");
  cli.example("show data/quickstart.json -s output -f json",
              "print the output for another program");
  return [show] { return show->run(); };
}

} // namespace mha::app
