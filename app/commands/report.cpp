// report: layers as one page of HTML.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include <mha/render/report.hpp>

namespace mha::app {

namespace {

struct ReportCommand {
  Request request;
  Selection selection;
  OutputOptions output;
  double max_size = 24;
  Common common;

  int run();
  std::vector<LayerReport> reports(const Model& model);
};

/// The line under the title: what headline() says after the name.
std::string description(const Model& model, const LoadedLayer& loaded) {
  std::string text = headline(model, loaded, {});
  text.pop_back();
  text.erase(0, render::visible(model.title()).size());
  for (std::string_view before : {" ", "· "}) // "TITLE layer 1 …", "TITLE · 2 heads …"
    if (text.starts_with(before)) text.erase(0, before.size());
  return text;
}

std::vector<LayerReport> ReportCommand::reports(const Model& model) {
  std::vector<LayerReport> reports;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    if (selection.batch && !layer.dims.batched)
      fail("{} {}: the input is not batched", selection.batch->option(), selection.batch->text());
    const Stopwatch watch(common.compute_s);
    const std::vector<std::size_t> batches =
        resolved(selection.batch, layer.dims.B, "batch items").indices;
    for (std::size_t batch : batches) {
      ReportRequest wanted;
      wanted.batch = batch;
      wanted.selection.head = selection.head;
      wanted.threads = common.threads;
      // Base64 makes four bytes out of three; the template takes 0.1 MB.
      const auto pages = static_cast<double>(model.chosen().size() * batches.size());
      wanted.limit = static_cast<std::size_t>(std::max(0.0, max_size - 0.1) * 1e6 * 3 / 4 / pages);
      wanted.all_exact = static_cast<std::size_t>(400e3 / pages);
      LayerReport report = mha::report(layer, wanted);
      report.id = id;
      report.headline = description(model, loaded);
      MeasureRequest measured;
      measured.selection.head = selection.head;
      if (layer.dims.batched)
        measured.selection.batch = IndexList(std::to_string(batch), "--batch");
      measured.threads = common.threads;
      LayerMeasures found = measure_heads(layer, measured);
      tell_overflow(found.overflow, common);
      report.measures = std::move(found.heads);
      reports.push_back(std::move(report));
    }
  }
  return reports;
}

int ReportCommand::run() {
  if (output.path.empty() && output_is_terminal())
    throw UsageError("report needs --output: PAGE.html, or - for standard output");
  if (!(max_size > 0))
    throw UsageError(fmt::format("--max-size is {}: more than 0 expected", max_size));
  std::optional<Model> model;
  {
    const Stopwatch watch(common.read_s);
    model.emplace(request);
  }
  const std::vector<LayerReport> layers = reports(*model);
  {
    const Stopwatch watch(common.write_s);
    TextFile file(output.path);
    render::report_page(layers, {model->title(), "mha-inspect " MHA_VERSION}, file.sink());
    file.finish();
  }
  report_timings(common);
  return 0;
}

} // namespace

Run declare_report(Cli& cli) {
  const auto report = std::make_shared<ReportCommand>();
  cli.about(
      "Writes one page of HTML that opens from disk, without a network: every head as a small "
      "map, sorted by any measure of `stats`; a head with lines between tokens and as a "
      "matrix with its exact values; a query step by step; what each head adds to the "
      "output. Starts at any stage: with `weights` alone the page has no steps.");
  add_selection(cli, report->selection,
                {.batch = true, .head = true, .query = false, .key = false});
  cli.group("Output");
  cli.value("--output,-o", "PATH", report->output.path, "the page; - for standard output")
      .offers(Completes::files);
  cli.value("--max-size", "MB", report->max_size,
            "how large the page may become; default: 24. Weights are exact as long as they fit, "
            "then rounded to 16 bits; the page says so");
  add_layer(cli, report->request);
  add_common(cli, report->common);
  cli.example("report data/quickstart.json -o page.html", "one layer");
  cli.example("report data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--tokens data/induction/tokens.json -o page.html",
              "every layer of a checkpoint in one page, with labels");
  return [report] { return report->run(); };
}

} // namespace mha::app
