// map: draws what heads attend to, in the terminal, as PNG, as SVG and as PDF.

#include "circuit_maps.hpp"
#include "commands/commands.hpp"
#include "describe.hpp"
#include "figure_options.hpp"
#include "flow.hpp"
#include "output.hpp"
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/sink_watch.hpp>
#include <mha/ranks/compute.hpp>
#include <mha/render/map.hpp>
#include <mha/render/map_layout.hpp>
#include <mha/render/map_terminal.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct MapCommand {
  Request request;
  std::vector<std::string> stages;
  Selection selection;
  OutputOptions output;
  std::string color_map, color_scale, pooling;
  std::optional<double> low, high;
  std::optional<std::size_t> cells;
  bool per_head_range = false, without_sink = false;
  FigureOptions figure;
  std::vector<std::string> vocabulary;
  std::optional<std::int64_t> offset;
  Common common;

  int run();

private:
  /// One file, while its panels come in.
  struct Picture {
    std::string path;
    render::MapPicture picture;
    render::MapText text;
  };

  void check();
  bool draws_circuits() const;
  void draw_circuit();
  void refuse_of_stages(bool selects) const;
  void compute_layer(const Sources& model, const std::string& id);
  Selection batch_chosen(const LoadedLayer& loaded);
  Picture& picture_for(const Sources& model, const LoadedLayer& loaded, Stage stage,
                       const PlannedFile& file);
  Pool::Size size_for(const Picture& picture, const Layer& layer) const;
  void choose_colors();
  void note_sink(std::optional<double> share);
  void write(const Picture& picture);

  std::string form_; ///< text, png, svg, pdf
  render::TextStyle look_;
  std::vector<Picture> pictures_;
  bool sink_is_noted_ = false;
};

void MapCommand::check() {
  const auto ends = [&](std::string_view extension) { return output.path.ends_with(extension); };
  form_ = output.format;
  if (form_.empty() && (output.to_standard_output() || ends(".txt"))) form_ = "text";
  if (form_.empty() && ends(".png")) form_ = "png";
  if (form_.empty() && ends(".svg")) form_ = "svg";
  if (form_.empty() && ends(".pdf")) form_ = "pdf";
  if (form_.empty())
    throw UsageError(
        fmt::format("{}: pictures are .png, .svg, .pdf or .txt; give the path one of these, or "
                    "--format",
                    output.path));
  if ((form_ == "png" || form_ == "pdf") && output.to_standard_output() && output_is_terminal())
    fail("bytes of a {} do not belong on a terminal; give --output, or pipe them on",
         form_ == "png" ? "PNG" : "PDF");
  figure.check(form_, request, common);
  if (cells == std::size_t{0}) throw UsageError("--cells is 0: at least 1 expected");
  if (without_sink && selection.key) throw UsageError("--without-sink and --key: give one of them");
  if (without_sink) selection.key.emplace("1:", "--without-sink");
  if (low && high && *low >= *high)
    throw UsageError(fmt::format("--vmin {} is not below --vmax {}", *low, *high));
  look_ = look_of_output(common.color);
  if (!output.to_standard_output()) look_ = {false, look_.width};
}

bool MapCommand::draws_circuits() const {
  const bool circuits = stages.size() == 1 && (stages[0] == "qk" || stages[0] == "ov");
  if (!circuits && (!vocabulary.empty() || offset))
    throw UsageError(fmt::format("{} is for the circuits of the weights alone: -s qk or -s ov",
                                 offset ? "--offset" : "--vocab"));
  return circuits;
}

/// What colours or chooses the maps of stages only; `selects`: tokens and texts, too.
void MapCommand::refuse_of_stages(bool selects) const {
  for (const auto& [given, option] :
       {std::pair(selects && selection.query.has_value(), "--query"),
        {selects && selection.key.has_value(), "--key or --without-sink"},
        {selects && selection.batch.has_value(), "--batch"},
        {per_head_range, "--per-head-range"},
        {color_scale == "log", "--color-scale log"},
        {!pooling.empty(), "--pool"},
        {cells.has_value(), "--cells"}})
    if (given) throw UsageError(fmt::format("-s {}: {} changes nothing", stages[0], option));
}

/// -s qk|ov: of weights and tokens, so that nothing of a text chooses or colours.
void MapCommand::draw_circuit() {
  refuse_of_stages(true);
  draw_circuits(request,
                {stages[0] == "ov",
                 vocabulary,
                 offset.value_or(0),
                 selection,
                 {color_map, render::ColorScale::linear, low, high},
                 output},
                form_, common);
  report_timings(common);
}

int MapCommand::run() {
  check();
  if (draws_circuits()) {
    draw_circuit();
    return 0;
  }
  if (const FlowInfo* const flow = flow_among(stages)) {
    refuse_of_stages(false);
    draw_flow(
        request,
        {flow, selection, output, form_, {}, {color_map, render::ColorScale::linear, low, high}},
        common);
    report_timings(common);
    return 0;
  }
  const Sources model = open_sources(request, common);
  for (const std::string& id : model.chosen()) compute_layer(model, id);
  if (!world().is_first()) return 0;
  const Stopwatch watch(common.write_s);
  choose_colors();
  for (const Picture& picture : pictures_) write(picture);
  report_timings(common);
  return 0;
}

/// Of several batch items the first, unless they were asked for.
Selection MapCommand::batch_chosen(const LoadedLayer& loaded) {
  Selection chosen = selection;
  const Dims& dims = loaded.layer.dims;
  if (!dims.batched || chosen.batch || mentions(output.path, "{batch}")) return chosen;
  chosen.batch.emplace("0", "--batch");
  if (dims.B == 1 || !pictures_.empty()) return chosen;
  const std::string note = fmt::format(
      "batch item 0 of {} is drawn; choose others with --batch, or all with --batch :", dims.B);
  if (common.strict) fail("{} (an error by --strict)", note);
  if (!common.quiet) print_note(note, common.color);
  return chosen;
}

MapCommand::Picture& MapCommand::picture_for(const Sources& model, const LoadedLayer& loaded,
                                             Stage stage, const PlannedFile& file) {
  const auto found = std::find_if(pictures_.begin(), pictures_.end(), [&](const Picture& picture) {
    return picture.path == file.path;
  });
  if (found != pictures_.end()) return *found;

  const Dims& dims = loaded.layer.dims;
  const std::size_t heads = resolved(file.selection.head, dims.H, "heads").indices.size(),
                    batches = resolved(file.selection.batch, dims.B, "batch items").indices.size(),
                    layers = mentions(output.path, "{layer}") ? 1 : model.chosen().size();
  Picture made{file.path, {}, {}};
  render::MapPicture& picture = made.picture;
  picture.stage = stage;
  picture.pooling = pooling.empty()    ? render::default_pooling(stage)
                    : pooling == "max" ? Pooling::max
                                       : Pooling::mean;
  picture.figure = figure.style;
  picture.title = fmt::format("{} · {}", name_of(stage), title_of(model));
  if (layers == 1 && !loaded.id.empty())
    picture.title += fmt::format(" layer {}", render::visible(loaded.id));
  if (figure.title) picture.title = *figure.title;
  if (figure.no_title) picture.title.clear();
  picture.several_layers = layers > 1;
  picture.several_batches = batches > 1;
  const std::size_t panels = heads * batches * layers;
  picture.columns = render::grid_columns(panels, heads);
  if (form_ == "text") {
    const render::MapAxes axes = render::axes_of(loaded.layer, stage, file.selection);
    const std::size_t beside = panels > heads ? picture.columns : panels;
    picture.columns = beside;
    std::size_t widest_title = 1 + std::to_string(dims.H - 1).size();
    if (batches > 1) widest_title += 2 + std::to_string(dims.B - 1).size();
    if (layers > 1)
      for (std::size_t before = widest_title; const std::string& id : model.chosen())
        widest_title = std::max(widest_title, before + 2 + render::display_width(id));
    if (per_head_range) widest_title = std::max(widest_title, render::widest_range);
    made.text = render::fit_text({panels, beside, axes.rows, axes.cols, widest_title}, look_);
  }
  return pictures_.emplace_back(std::move(made));
}

Pool::Size MapCommand::size_for(const Picture& picture, const Layer& layer) const {
  const render::MapPicture& drawn = picture.picture;
  const std::size_t most = cells.value_or(render::default_cells(drawn.columns, figure.style.width));
  Pool::Size size{most, most};
  if (form_ == "text") {
    size = {picture.text.rows, picture.text.cols};
    if (cells) size = {std::min(size.rows, *cells), std::min(size.cols, *cells)};
    if (layer.settings.columns) std::swap(size.rows, size.cols);
    ShareWriter bytes; // other ranks have no terminal, or another
    bytes.add(size);
    size = ShareReader(world().from_first(bytes.take())).take<Pool::Size>();
  }
  return size;
}

void MapCommand::compute_layer(const Sources& model, const std::string& id) {
  const LoadedLayer loaded = load_layer(model, id, common);
  const Layer& layer = loaded.layer;
  std::vector<Stage> wanted =
      stages_of(layer, stages.empty() ? std::vector<std::string>{"weights"} : stages);
  if (wanted.size() != 1) throw UsageError("map draws one stage; name one with --stage");
  const Stage stage = wanted[0];
  const Selection chosen = batch_chosen(loaded).placed(loaded.layer);
  require_axes(layer, wanted, chosen);

  struct Share {
    std::size_t picture;
    Selection selection;
    std::unique_ptr<Pool> pool;
  };
  std::vector<Share> shares;
  SeveralShareable all;
  for (const PlannedFile& file : planned_files(output.path, loaded, chosen, wanted, true)) {
    const Picture& picture = picture_for(model, loaded, stage, file);
    auto pool = std::make_unique<Pool>(layer, stage, file.selection, size_for(picture, layer),
                                       picture.picture.pooling);
    all.add(*pool);
    shares.push_back(
        {static_cast<std::size_t>(&picture - pictures_.data()), file.selection, std::move(pool)});
  }
  OverflowWatch overflow(layer);
  if (stage >= Stage::exp) all.add(overflow);
  SinkWatch sink;
  if (stage == Stage::weights) all.add(sink);
  const Stopwatch watch(common.compute_s);
  compute_together(world(), layer, make_plan(layer, all.wants(), chosen), all, common.threads);
  if (!world().is_first()) return;
  report_overflow(overflow.report(layer), common);
  if (!chosen.key) note_sink(sink.share());
  for (const Share& share : shares)
    for (render::MapPanel& panel :
         render::make_panels(layer, render::visible(id), stage, share.selection, *share.pool))
      pictures_[share.picture].picture.panels.push_back(std::move(panel));
}

/// Beside a key that takes most of the weight, the rest is dark.
void MapCommand::note_sink(std::optional<double> share) {
  if (!share || *share <= 1.0 / 3 || common.quiet || sink_is_noted_) return;
  sink_is_noted_ = true;
  print_note(
      fmt::format("key 0 has {:.0f} % of the weight: a sink; --without-sink draws the others",
                  100 * *share),
      common.color);
}

/// Every picture of a run has the same colours for the same numbers, or each head its own.
void MapCommand::choose_colors() {
  render::MapColors colors{color_map, {}, low, high};
  if (!color_scale.empty())
    colors.scale = color_scale == "log" ? render::ColorScale::log : render::ColorScale::linear;
  render::CellRange range;
  for (const Picture& picture : pictures_)
    for (const render::MapPanel& panel : picture.picture.panels) {
      range.add(panel.map);
      colors.is_long = colors.is_long || render::is_long_map(panel.rows.positions.size(),
                                                             panel.cols.positions.size());
    }
  for (Picture& picture : pictures_) {
    const Stage stage = picture.picture.stage;
    if (!per_head_range) {
      picture.picture.styles = {render::style_for(stage, colors, range)};
      continue;
    }
    for (const render::MapPanel& panel : picture.picture.panels) {
      render::CellRange own;
      own.add(panel.map);
      picture.picture.styles.push_back(render::style_for(stage, colors, own));
    }
  }
}

void MapCommand::write(const Picture& picture) {
  TextFile file(picture.path);
  if (form_ == "png")
    file.sink()(render::map_png(picture.picture));
  else if (form_ == "svg")
    file.sink()(render::map_svg(picture.picture));
  else if (form_ == "pdf")
    file.sink()(render::map_pdf(picture.picture));
  else
    file.sink()(render::map_text(picture.picture, picture.text, look_));
  file.finish();
}

} // namespace

Run declare_map(Cli& cli) {
  const auto map = std::make_shared<MapCommand>();
  cli.about(
      "Draws maps of queries × keys, a panel a head: in the terminal as coloured cells (as shades "
      "of "
      "characters where there are no colours), as PNG, SVG or PDF. Long maps are pooled to the "
      "size "
      "of the picture while they are computed, so that memory does not grow with them; the "
      "picture says how many numbers a cell covers. Masked keys are left out of it: a cell of "
      "nothing else is hatched, in text a dot. Saved maps are drawn without a layer: "
      "weights=FILE.");
  cli.group("What to draw");
  cli.list("--stage,-s", "NAME", map->stages,
           "scores, scaled, capped, biased, masked, shifted, exp or weights, the default")
      .offers(Completes::stages);
  add_selection(cli, map->selection);
  cli.group("How");
  std::vector<std::string> names;
  for (const render::ColorMap& colors : render::color_maps()) names.emplace_back(colors.name);
  cli.choice("--colormap", names, map->color_map,
             "default: viridis for weights, exp and shifted, diverging for stages with signs");
  cli.choice("--color-scale", {"linear", "log"}, map->color_scale,
             "log tells small weights apart, down to 1e-4 of the largest; default: linear, log for "
             "weights and exp of more than 128 tokens");
  cli.value("--vmin", "X", map->low,
            "the number at the lower end of the colours; default: 0 for "
            "weights, else from the cells");
  cli.value("--vmax", "X", map->high, "the number at the upper end; default: the largest cell");
  cli.flag("--per-head-range", map->per_head_range,
           "each head's colours reach from its smallest to its largest cell");
  cli.flag("--without-sink", map->without_sink,
           "leave out key 0, which takes most of the weight in many trained models");
  cli.choice("--pool", {"mean", "max"}, map->pooling,
             "what a cell of several numbers shows; default: max for weights and exp, mean for "
             "other stages");
  cli.value("--cells", "N", map->cells,
            "the most cells along a side of a panel; default: what the picture has room for");
  add_figure(cli, map->figure);
  cli.group("Circuits of the weights alone: -s qk or -s ov, of a whole model, without a text");
  cli.list("--vocab", "TOKEN[,TOKEN]", map->vocabulary,
           "the tokens between which a circuit is drawn; one with a blank before it is another");
  add_offset(cli, map->offset);
  add_output(cli, map->output, {"text", "png", "svg", "pdf"},
             "write to FILE.png, FILE.svg, FILE.pdf or FILE.txt; {layer}, {batch} and {head} in "
             "PATH write one file each",
             all_placeholders);
  add_layer(cli, map->request);
  add_common(cli, map->common);
  cli.example("map data/quickstart.json", "every head, in the terminal");
  cli.example("map data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --tokens "
              "data/induction/tokens.json --head 0 -o head0.svg",
              "one head for a paper");
  cli.example("map data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' -o "
              "heads.png --color-scale log",
              "layers × heads of a checkpoint");
  cli.example("map data/quickstart.json --annotate --zoom 2 -o quickstart.png",
              "numbers in cells, twice as many pixels");
  cli.example("map data/quickstart.json -s scores -o 'head{head}.png'", "one picture a head");
  cli.example("map data/bard-gpt2 -s ov --vocab ' king, queen, love, death, thou, thee' --layer 0",
              "which tokens a head copies, whatever the text");
  return [map] { return map->run(); };
}

} // namespace mha::app
