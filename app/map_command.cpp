#include "map_command.hpp"

#include "circuit_maps.hpp"
#include "derived_maps.hpp"
#include "describe.hpp"
#include <mha/layer/graph.hpp>
#include <mha/model/patcher.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/sink_watch.hpp>
#include <mha/ranks/together.hpp>
#include <mha/render/font.hpp>
#include <mha/render/map_layout.hpp>
#include <mha/system/references.hpp>

#include <algorithm>

namespace mha::app {

namespace {

constexpr const char* one_stage = "map draws one stage; name it with --stage";

/// The cells that determine the colour scale. In maps of weights, rows that may attend to only one
/// key are masked, because it gets all their weight in any head.
PooledMap scale_cells(const render::MapPanel& panel, Stage stage) {
  PooledMap map = panel.map;
  if (stage != Stage::weights || panel.rows.factor > 1 || panel.cols.factor > 1) return map;
  const bool turned = panel.rows.name != "query";
  const std::size_t queries = turned ? map.cols : map.rows, keys = turned ? map.rows : map.cols;
  const auto cell = [&](std::size_t q, std::size_t k) {
    return turned ? k * queries + q : q * keys + k;
  };
  bool has_rows = false;
  for (std::size_t q = 0; q < queries; ++q) {
    std::size_t seen = 0;
    for (std::size_t k = 0; k < keys; ++k) seen += map.masked[cell(q, k)] == 0;
    has_rows = has_rows || seen > 1;
    for (std::size_t k = 0; k < keys && seen == 1; ++k) map.masked[cell(q, k)] = 1;
  }
  return has_rows ? map : panel.map;
}

} // namespace

void MapCommand::check() {
  form_ = form_of(output);
  check_combined();
  if ((form_ == "png" || form_ == "pdf") && output.to_standard_output() && output_is_terminal())
    fail("a {} is not written to a terminal; give --output, or pipe it into a program",
         form_ == "png" ? "PNG" : "PDF");
  figure.check(form_, request, common);
  if (cells == std::size_t{0}) throw UsageError("--cells is 0: at least 1 expected");
  if (without_sink && selection.key)
    throw UsageError("--without-sink and --key contradict each other; give one of them");
  if (without_sink) selection.key.emplace("1:", "--without-sink: --key");
  if (low && high && *low >= *high)
    throw UsageError(fmt::format("--vmin {} is not below --vmax {}", *low, *high));
  text_style_ = text_style_of_output(common.color);
  if (!output.to_standard_output()) text_style_ = {false, text_style_.width};
}

/// Checks maps that are combined with others. Pools of means must also be means.
void MapCommand::check_combined() const {
  if (form_ == "npy" && !is_combined() && !draws_circuits())
    throw UsageError("map writes an array only of a difference (--minus), a mean (--batch mean) or "
                     "a circuit (-s qk, -s ov); `dump` writes a stage itself");
  if (!is_combined()) return;
  for (const std::string_view placeholder : all_placeholders)
    if (mentions(output.path, placeholder))
      throw UsageError(fmt::format("{}: a difference or a mean is one file; leave out {}",
                                   output.path, placeholder));
  if (pooling == "max")
    throw UsageError(
        "--pool max: the maximum of a difference or a mean is not that of its maps; leave it out");
  if (minus.asked() && (per_head_range || color_scale == "log"))
    throw UsageError(fmt::format("{}: a difference has a single linear scale around 0",
                                 per_head_range ? "--per-head-range" : "--color-scale log"));
  if (minus.asked() && low.has_value() != high.has_value() && (low ? *low >= 0 : *high <= 0))
    throw UsageError(fmt::format("{} {}: the scale of a difference is symmetric around 0; {}",
                                 low ? "--vmin" : "--vmax", low ? *low : *high,
                                 low ? "a number below 0 expected" : "a number above 0 expected"));
  if (world().count() > 1) fail("maps are combined by one process; run without mpirun");
}

bool MapCommand::draws_circuits() const {
  const bool circuits = stages.size() == 1 && (stages[0] == "qk" || stages[0] == "ov");
  if (!circuits && (!vocabulary.empty() || offset))
    throw UsageError(fmt::format("{} applies to circuits of the weights: -s qk or -s ov",
                                 offset ? "--distance" : "--vocab"));
  return circuits;
}

/// Throws UsageError for options that only apply to maps of stages; `selects`: also those that
/// select tokens and texts.
void MapCommand::refuse_stage_options(bool selects) const {
  for (const auto& [given, option] :
       {std::pair(selects && selection.query.has_value(), "--query"),
        {selects && selection.key.has_value(), "--key or --without-sink"},
        {selects && selection.batch.has_value(), "--batch"},
        {mean_of_items, "--batch mean"},
        {minus.asked(), "--minus"},
        {per_head_range, "--per-head-range"},
        {color_scale == "log", "--color-scale log"},
        {!pooling.empty(), "--pool"},
        {cells.has_value(), "--cells"}})
    if (given) throw UsageError(fmt::format("-s {}: {} has no effect", stages[0], option));
}

/// -s qk|ov: circuits depend on weights and tokens, so options of a text do not apply.
void MapCommand::draw_circuit() {
  refuse_stage_options(true);
  draw_circuits(request,
                {stages[0] == "ov",
                 vocabulary,
                 offset.value_or(0),
                 selection,
                 {color_map, render::ColorScale::linear, low, high},
                 output,
                 figure},
                form_, common);
}

int MapCommand::run() {
  check();
  if (draws_circuits()) {
    draw_circuit();
    return 0;
  }
  if (std::ranges::any_of(stages,
                          [](const std::string& name) { return find_derived(name).has_value(); })) {
    if (stages.size() > 1) throw UsageError(one_stage);
    refuse_stage_options(false);
    request.stages = stages;
    draw_derived(
        request,
        {selection, output, form_, {color_map, render::ColorScale::linear, low, high}, figure},
        common);
    return 0;
  }
  OpenedModel model = open_model(request, common);
  compute_layers(model);
  if (!world().is_first()) return 0;
  if (minus.asked()) compute_difference();
  const Stopwatch watch(common.write_s);
  choose_colors();
  for (Picture& picture : pictures_) {
    if (form_ == "png" || form_ == "pdf") note_undrawn(picture);
    write(picture);
  }
  return 0;
}

void MapCommand::compute_layers(OpenedModel& model) {
  for (const std::string& id : model.chosen()) compute_layer(model, id);
  for (Picture& drawn : pictures_) {
    if (!mean_of_items) break;
    std::vector<render::MapPanel>& panels = drawn.picture.panels;
    const std::size_t maps = panels.size();
    panels = mean_over_items(panels);
    drawn.picture.title += fmt::format(" · mean of {}", counted(maps / panels.size(), "items"));
  }
}

/// Opens the second side. Errors about its layer refer to --minus-layer.
OpenedModel MapCommand::opened_minus() {
  try {
    return open_model(minus.request_of(request), common);
  } catch (const Error& error) {
    if (minus.layer.empty() || !refers_to(error.message(), "layer")) throw;
    throw Error(with_reference(error.message(), "layer", "minus_layer"));
  }
}

/// Pools the second side as the first one was pooled, and subtracts it.
void MapCommand::compute_difference() {
  std::vector<Picture> first = std::exchange(pictures_, {});
  selection = minus.selection_of(selection);
  mean_of_items = mean_of_items && !minus.batch;
  OpenedModel other = opened_minus();
  compute_layers(other);
  if (minus.patcher) minus.patcher->require_read();
  subtract(first[0].picture.panels, pictures_[0].picture.panels, first[0].picture.stage);
  pictures_ = std::move(first);
  if (is_zero(pictures_[0].picture.panels))
    print_note("both maps are equal: the difference is 0 everywhere", common);
  if (!figure.title && !figure.no_title) pictures_[0].picture.title += minus.title();
}

/// The selection with the first of several batch items, unless others were chosen.
Selection MapCommand::batch_chosen(const LoadedLayer& loaded) {
  Selection chosen = selection;
  const Dims& dims = loaded.layer.dims;
  if (mean_of_items) {
    if (!dims.batched) fail("--batch mean: the input is not batched");
    chosen.batch.reset();
    return chosen;
  }
  if (!dims.batched || chosen.batch || mentions(output.path, "{batch}")) return chosen;
  chosen.batch.emplace("0", "--batch");
  if (dims.B == 1 || !pictures_.empty()) return chosen;
  const std::string note = fmt::format(
      "only batch item 0 of {} is drawn; choose others with --batch, or all with --batch :",
      dims.B);
  if (common.strict) fail("{} (an error by --strict)", note);
  print_note(note, common);
  return chosen;
}

MapCommand::Picture& MapCommand::picture_for(const OpenedModel& model, const LoadedLayer& loaded,
                                             Stage stage, const PlannedFile& file) {
  const auto found = std::find_if(pictures_.begin(), pictures_.end(), [&](const Picture& picture) {
    return picture.path == file.path;
  });
  if (found != pictures_.end()) return *found;

  const Dims& dims = loaded.layer.dims;
  const std::size_t heads = resolved(file.selection.head, dims.H, "heads").indices.size(),
                    batches =
                        mean_of_items
                            ? 1
                            : resolved(file.selection.batch, dims.B, "batch items").indices.size(),
                    layers = mentions(output.path, "{layer}") ? 1 : model.chosen().size();
  Picture made{file.path, {}, {}};
  render::MapPicture& picture = made.picture;
  picture.stage = stage;
  picture.pooling = is_combined()      ? Pooling::mean
                    : pooling.empty()  ? render::default_pooling(stage)
                    : pooling == "max" ? Pooling::max
                                       : Pooling::mean;
  picture.figure = figure.style;
  picture.title = fmt::format("{} · {}", name_of(stage), title_of(model));
  if (layers == 1 && !loaded.id.empty())
    picture.title += fmt::format(" layer {}", render::visible(loaded.id));
  picture.title = figure.title_of(std::move(picture.title));
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
    made.text = render::fit_text({panels, beside, axes.rows, axes.cols, widest_title}, text_style_);
  }
  return pictures_.emplace_back(std::move(made));
}

Pool::Size MapCommand::size_for(const Picture& picture, const Layer& layer) const {
  const render::MapPicture& drawn = picture.picture;
  const std::size_t most = cells.value_or(render::default_cells(drawn.columns, figure.style.width));
  Pool::Size size{most, most};
  if (form_ == "npy") return {layer.dims.T, layer.dims.S_all};
  if (form_ == "text") {
    size = {picture.text.rows, picture.text.cols};
    if (cells) size = {std::min(size.rows, *cells), std::min(size.cols, *cells)};
    if (layer.settings.columns) std::swap(size.rows, size.cols);
    ShareBytes bytes; // other ranks have no terminal, or a different one
    bytes.field(size);
    const std::string of_first = world().from_first(bytes.take());
    ShareBytes(of_first).field(size);
  }
  return size;
}

void MapCommand::compute_layer(OpenedModel& model, const std::string& id) {
  const LoadedLayer loaded = load_layer(model, id, common);
  const Layer& layer = loaded.layer;
  std::vector<Stage> wanted =
      stages_of(layer, stages.empty() ? std::vector<std::string>{"weights"} : stages);
  if (wanted.size() != 1) throw UsageError(one_stage);
  const Stage stage = wanted[0];
  const Selection chosen = batch_chosen(loaded).placed(loaded.layer);
  require_axes(layer, wanted, chosen);

  const auto size_of_map = [&](const Picture& picture) {
    const Pool::Size size = size_.value_or(size_for(picture, layer));
    if (minus.asked()) size_ = size;
    return size;
  };

  struct Share {
    std::size_t picture;
    Selection selection;
    std::unique_ptr<Pool> pool;
  };
  std::vector<Share> shares;
  SeveralMergeable all;
  for (const PlannedFile& file : planned_files(output.path, loaded, chosen, wanted, true)) {
    const Picture& picture = picture_for(model, loaded, stage, file);
    // Maps that are combined must have one size, padding included.
    const std::vector<Selection> texts =
        is_combined() ? std::vector{file.selection} : without_padding(layer, file.selection);
    const Pool::Size size = Pool::of_one_scale(layer, texts, size_of_map(picture));
    for (const Selection& text : texts) {
      auto pool = std::make_unique<Pool>(layer, stage, text, size, picture.picture.pooling);
      all.add(*pool);
      shares.push_back(
          {static_cast<std::size_t>(&picture - pictures_.data()), text, std::move(pool)});
    }
  }
  OverflowWatch overflow(layer);
  all.add(overflow);
  SinkWatch sink;
  if (stage == Stage::weights) all.add(sink);
  const Stopwatch watch(common.compute_s);
  compute_together(world(), layer, make_plan(layer, all.wants(), chosen), all, common.threads,
                   model.compute());
  if (!world().is_first()) return;
  report_overflow(overflow.report(layer), common);
  if (!chosen.key) note_sink(sink.share());
  for (const Share& share : shares)
    for (render::MapPanel& panel :
         render::make_panels(layer, render::visible(id), stage, share.selection, *share.pool))
      pictures_[share.picture].picture.panels.push_back(std::move(panel));
}

/// Notes a sink, beside which the other keys are dark.
void MapCommand::note_sink(std::optional<double> share) {
  if (!share || *share <= 1.0 / 3 || common.quiet || sink_is_noted_ || is_combined()) return;
  sink_is_noted_ = true;
  print_note(
      fmt::format("key 0 has {:.0f} % of the weight (a sink); --without-sink draws the other keys",
                  100 * *share),
      common.color);
}

/// Notes characters that the font of PNG and PDF lacks: Chinese, Japanese, Korean and emoji.
void MapCommand::note_undrawn(Picture& picture) {
  const std::size_t tokens = render::number_undrawn(picture.picture);
  const bool of_title = !render::Font::instance().draws(render::visible(picture.picture.title));
  if ((tokens == 0 && !of_title) || common.quiet || undrawn_is_noted_) return;
  undrawn_is_noted_ = true;
  const std::string where =
      tokens > 0 ? fmt::format("{}, numbered by position: #{}", counted(tokens, "labels"),
                               of_title ? "3; the title has boxes" : "3")
                 : "the title, which has boxes instead";
  print_note(
      fmt::format("the font of {} files lacks characters of {}; an SVG shows them (-o FILE.svg)",
                  form_ == "png" ? "PNG" : "PDF", where),
      common.color);
}

/// Chooses colours: all pictures of a run share one scale, unless each head has its own.
void MapCommand::choose_colors() {
  render::MapColors colors{color_map, {}, low, high};
  if (minus.asked() && low.has_value() != high.has_value())
    colors.low = -high.value_or(-low.value_or(0)), colors.high = -*colors.low;
  if (!color_scale.empty())
    colors.scale = color_scale == "log" ? render::ColorScale::log : render::ColorScale::linear;
  render::CellRange range;
  for (const Picture& picture : pictures_)
    for (const render::MapPanel& panel : picture.picture.panels) {
      range.add(scale_cells(panel, picture.picture.stage));
      colors.is_long = colors.is_long || render::is_long_map(panel.rows.positions.size(),
                                                             panel.cols.positions.size());
    }
  for (Picture& picture : pictures_) {
    // A difference is drawn around zero, like scores.
    const Stage stage = minus.asked() ? Stage::scaled : picture.picture.stage;
    if (!per_head_range) {
      picture.picture.styles = {render::style_for(stage, colors, range)};
      continue;
    }
    for (const render::MapPanel& panel : picture.picture.panels) {
      render::CellRange own;
      own.add(scale_cells(panel, picture.picture.stage));
      // A head entirely beyond one end gets the other end from all heads.
      if (colors.low && own.high <= *colors.low) own.high = range.high;
      if (colors.high && own.low >= *colors.high) own.low = range.low;
      picture.picture.styles.push_back(render::style_for(stage, colors, own));
    }
  }
}

void MapCommand::write(const Picture& picture) {
  if (form_ == "npy") {
    const std::vector<render::MapPanel>& panels = picture.picture.panels;
    std::vector<std::string> layers;
    for (const render::MapPanel& panel : panels)
      if (layers.empty() || layers.back() != panel.layer) layers.push_back(panel.layer);
    return write_map_npy(picture.path, panels, layers.size(), panels.size() == layers.size(),
                         picture.picture.stage);
  }
  write_text(picture.path, form_ == "png"   ? render::map_png(picture.picture)
                           : form_ == "svg" ? render::map_svg(picture.picture)
                           : form_ == "pdf"
                               ? render::map_pdf(picture.picture)
                               : render::map_text(picture.picture, picture.text, text_style_));
}

} // namespace mha::app
