// report: writes layers to HTML pages.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "measure_notes.hpp"
#include "output.hpp"
#include "predicted_places.hpp"
#include <mha/model/effects.hpp>
#include <mha/render/report.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct ReportCommand {
  RunRequest request;
  Selection selection;
  OutputOptions output;
  double max_size = 24;
  bool with_effects = false;
  Common common;

  int run();
  using Pages = std::vector<std::pair<std::string, std::vector<LayerReport>>>;
  void add_reports(OpenedModel& model, Pages& pages);
  void compute_effects(const OpenedModel& model);
  void add_effects(LayerReport& report) const;
  LayerReport report_of(const LoadedLayer& loaded, const ComputeLayer& compute,
                        const std::optional<IndexList>& heads, std::size_t batch,
                        double reports_on_page);

private:
  std::vector<Effect> effects_;
};

/// A measure of effects that pages show.
struct EffectMeasure {
  const char* name;
  const char* text;
  std::optional<double> Effect::*number;
};
constexpr EffectMeasure effect_measures[]{
    {"kl", "how the prediction changes without the head: D(clean ‖ without it), in nats",
     &Effect::kl},
    {"loss_change", "how much the loss of the next token increases without the head",
     &Effect::loss_change},
    {"logit_change", "how much the most probable token's logit changes without the head",
     &Effect::logit_change},
    {"direct", "the head's own contribution to that logit", &Effect::direct},
    {"change", "‖Δfinal‖ / ‖final‖ without the head", &Effect::change}};

void ReportCommand::compute_effects(const OpenedModel& model) {
  if (!with_effects) return;
  if (!model.texts())
    throw UsageError("--effects needs a prediction: give a whole model and a text");
  const Stopwatch watch(common.compute_s);
  EffectsRequest last_tokens;
  last_tokens.places = predicted_places(*model.texts(), std::nullopt);
  last_tokens.threads = common.threads;
  effects_ = effects(*model.text_layers(), last_tokens);
}

/// Adds each head's mean effect over the predictions of the report's batch item.
void ReportCommand::add_effects(LayerReport& report) const {
  std::vector<Effect> of_report;
  for (const Effect& effect : effects_)
    if (effect.part == Component::head && std::to_string(*effect.layer) == report.id &&
        effect.batch == report.batch.value_or(0))
      of_report.push_back(effect);
  const std::vector<Effect> means = mean_over_places(of_report);
  for (const EffectMeasure& measure : effect_measures) {
    if (std::ranges::none_of(effects_, [&](const Effect& effect) {
          return effect.part == Component::head && (effect.*measure.number).has_value();
        }))
      continue;
    HeadNumbers& numbers = report.effects.emplace_back();
    numbers.name = measure.name, numbers.text = measure.text;
    for (const std::size_t head : report.heads) {
      const auto mean = std::ranges::find(means, std::optional(head), &Effect::head);
      numbers.of_heads.push_back(mean == means.end() ? std::nullopt : (*mean).*measure.number);
    }
  }
}

void ReportCommand::add_reports(OpenedModel& model, Pages& pages) {
  const bool page_per_layer = mentions(output.path, "{layer}");
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
      const auto reports_on_page =
          static_cast<double>((page_per_layer ? 1 : model.chosen().size()) * batches.size());
      auto page = std::ranges::find(pages, file.path, &Pages::value_type::first);
      if (page == pages.end()) page = pages.insert(page, {file.path, {}});
      for (std::size_t batch : batches)
        page->second.push_back(
            report_of(loaded, model.compute(), file.selection.head, batch, reports_on_page));
    }
  }
}

/// The report on one batch item of one layer. `reports_on_page`: how many share the page's size.
LayerReport ReportCommand::report_of(const LoadedLayer& loaded, const ComputeLayer& compute,
                                     const std::optional<IndexList>& heads, std::size_t batch,
                                     double reports_on_page) {
  const Layer& layer = loaded.layer;
  ReportRequest item;
  item.batch = batch;
  item.selection.head = heads;
  item.threads = common.threads, item.compute = compute;
  // The page's own template takes 0.15 MB, and Base64 turns three bytes into four.
  item.limit =
      static_cast<std::size_t>(std::max(0.0, max_size - 0.15) * 1e6 * 3 / 4 / reports_on_page);
  item.all_exact = static_cast<std::size_t>(400e3 / reports_on_page);
  LayerReport report = mha::report(layer, item);
  report.id = loaded.id;
  report.headline = description(loaded);
  add_effects(report);
  report_overflow(report.overflow, common);
  return report;
}

int ReportCommand::run() {
  if (output.path.empty() && output_is_terminal())
    throw UsageError("report needs --output: PAGE.html, or - for standard output");
  if (!(max_size > 0))
    throw UsageError(fmt::format("--max-size is {}: more than 0 expected", max_size));
  OpenedModel model = open_model(request, common);
  compute_effects(model);
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
  return 0;
}

} // namespace

Run declare_report(Cli& cli) {
  const auto report = std::make_shared<ReportCommand>();
  cli.about(
      "Writes a self-contained HTML page that opens from disk without a network. It shows every "
      "head as a small map, sorted by any measure of `stats`; one head with lines between tokens "
      "and as a matrix of exact values; one query step by step; and each head's contribution to "
      "the output. A layer can start from any stage; if only `weights` are given, the page has no "
      "steps.");
  add_selection(cli, report->selection,
                {.batch = true, .head = true, .query = false, .key = false});
  cli.group("Output");
  add_output_path(cli, report->output, "html",
                  "the page; - for standard output; {layer}, {batch} and {head} in PATH write one "
                  "page for each",
                  all_placeholders);
  cli.flag("--effects", report->with_effects,
           "for a whole model with a text: also show the effect of ablating each head on the "
           "prediction");
  cli.value(
      "--max-size", "MB", report->max_size,
      "the maximum size of the page; default: 24. Weights are exact if they fit; otherwise they "
      "are rounded to 16 bits, and the page notes it");
  add_layer(cli, report->request);
  add_common(cli, report->common);
  cli.example("report data/quickstart.json -o page.html", "write a page about one layer");
  cli.example("report data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--tokens data/induction/tokens.json -o page.html",
              "write one page about every layer of a checkpoint, with token labels");
  return [report] { return report->run(); };
}

} // namespace mha::app
