// report: layers as one page of HTML.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include "sink_note.hpp"
#include <mha/render/report.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct ReportCommand {
  Request request;
  Selection selection;
  OutputOptions output;
  double max_size = 24;
  Common common;

  int run();
  using Pages = std::vector<std::pair<std::string, std::vector<LayerReport>>>;
  void add_reports(const Sources& model, Pages& pages);
  LayerReport report_of(const LoadedLayer& loaded, const std::optional<IndexList>& heads,
                        std::size_t batch, double parts);
};

void ReportCommand::add_reports(const Sources& model, Pages& pages) {
  const bool page_a_layer = mentions(output.path, "{layer}");
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    if (selection.batch && !layer.dims.batched)
      fail("{} {}: the input is not batched", selection.batch->option(), selection.batch->text());
    const Stopwatch watch(common.compute_s);
    std::vector<Stage> per_head{Stage::weights};
    for (const PlannedFile& file : planned_files(output.path, loaded, selection, per_head, false)) {
      const std::vector<std::size_t> batches =
          resolved(file.selection.batch, layer.dims.B, "batch items").indices;
      const auto parts =
          static_cast<double>((page_a_layer ? 1 : model.chosen().size()) * batches.size());
      auto page = std::ranges::find(pages, file.path, &Pages::value_type::first);
      if (page == pages.end()) page = pages.insert(page, {file.path, {}});
      for (std::size_t batch : batches)
        page->second.push_back(report_of(loaded, file.selection.head, batch, parts));
    }
  }
}

/// One batch item of one layer, on a page of several.
LayerReport ReportCommand::report_of(const LoadedLayer& loaded,
                                     const std::optional<IndexList>& heads, std::size_t batch,
                                     double parts) {
  const Layer& layer = loaded.layer;
  ReportRequest wanted;
  wanted.batch = batch;
  wanted.selection.head = heads;
  wanted.threads = common.threads;
  // Base64 makes four bytes out of three; the template takes 0.1 MB.
  wanted.limit = static_cast<std::size_t>(std::max(0.0, max_size - 0.1) * 1e6 * 3 / 4 / parts);
  wanted.all_exact = static_cast<std::size_t>(400e3 / parts);
  LayerReport report = mha::report(layer, wanted);
  report.id = loaded.id;
  report.headline = description(loaded);
  report_overflow(report.overflow, common);
  return report;
}

int ReportCommand::run() {
  if (output.path.empty() && output_is_terminal())
    throw UsageError("report needs --output: PAGE.html, or - for standard output");
  if (!(max_size > 0))
    throw UsageError(fmt::format("--max-size is {}: more than 0 expected", max_size));
  const Sources model = open_sources(request, common);
  Pages pages;
  add_reports(model, pages);
  SinkNote sinks;
  for (const auto& [path, layers] : pages)
    for (const LayerReport& layer : layers) sinks.add(layer.id, layer.measures);
  sinks.print(common);
  for (const auto& [path, layers] : pages) {
    const Stopwatch watch(common.write_s);
    TextFile file(path);
    render::report_page(layers, {title_of(model), "mha-inspect " MHA_VERSION}, file.sink());
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
  add_output_path(cli, report->output.path,
                  "the page; - for standard output; {layer}, {batch} and {head} in PATH write one "
                  "page each",
                  all_placeholders);
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
