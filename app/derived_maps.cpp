#include "derived_maps.hpp"

#include "describe.hpp"
#include "grid.hpp"
#include <mha/observe/not_finite.hpp>
#include <mha/render/renderers.hpp>
#include <mha/system/named.hpp>

#include <algorithm>

namespace mha::app {

namespace {

/// What one output file holds, a value a layer, and its title.
struct DerivedFile {
  std::string path, title;
  std::vector<render::Value> values;
};

/// The output files of a layer after {layer}, {batch} and {head} are filled in, each with the part
/// of the stage that it holds.
std::vector<PlannedFile> files_of(const LoadedLayer& loaded, const DerivedOptions& options) {
  if (mentions(options.output.path, "{head}") && !options.kind->of_heads)
    fail("{}: {} has no head axis for {{head}}; leave it out", options.output.path,
         options.kind->name);
  // planned_files needs a stage only for its axes; `false`: no stage was named by the user.
  std::vector<Stage> stages_with_axes{Stage::weights};
  return planned_files(options.output.path, loaded, options.selection, stages_with_axes, false);
}

/// For each computed layer, whether --layer chose it; a rollout also computes the layers before.
std::vector<bool> layers_to_show(const std::vector<std::string>& ids,
                                 const std::string& layer_option) {
  if (layer_option.empty() || layer_option == "all") return std::vector<bool>(ids.size(), true);
  std::vector<bool> shown(ids.size(), false);
  for (const std::size_t n :
       IndexList(layer_option, "--layer").resolve(ids.size(), "layers").indices)
    shown[n] = true;
  return shown;
}

/// Adds a layer's maps to their files.
void add_to_files(const LoadedLayer& loaded, const Tensor& map, const DerivedOptions& options,
                  std::vector<DerivedFile>& files) {
  const DerivedInfo& kind = *options.kind;
  const render::DerivedStage stage{kind.name, kind.formula, kind.rows, kind.cols, kind.of_heads};
  for (const PlannedFile& planned : files_of(loaded, options)) {
    auto file = std::ranges::find(files, planned.path, &DerivedFile::path);
    if (file == files.end()) file = files.insert(file, {planned.path, {}, {}});
    file->values.push_back(make_value(loaded.layer, loaded.id, stage, planned.selection, map));
  }
}

/// Computes the stage for the layers that --layer chose; a rollout needs all earlier ones, too.
std::vector<DerivedFile> computed_files(RunRequest request, const DerivedOptions& options,
                                        Common& common) {
  const bool is_rollout = options.kind->kind == DerivedKind::rollout;
  const std::string layer_option = request.layer;
  const bool computes_all_layers = is_rollout && request.has_text();
  if (computes_all_layers) request.layer.clear();
  OpenedModel model = open_model(request, common);
  const std::vector<std::string>& ids = model.chosen();
  const std::vector<bool> shown = layers_to_show(ids, computes_all_layers ? layer_option : "");
  // Without a text, the layers come from files, which must begin at layer 0.
  if (is_rollout && !ids.empty() && !request.has_text() && ids.front() != "0" &&
      !ids.front().empty())
    fail("a rollout begins at layer 0: --layer 0-{}", ids.back());
  DerivedMaps maps(options.kind->kind, common.threads);
  std::vector<DerivedFile> files;
  const std::size_t last = static_cast<std::size_t>(
      std::ranges::find(shown.rbegin(), shown.rend(), true).base() - shown.begin());
  for (std::size_t n = 0; n < last; ++n) {
    const LoadedLayer loaded = load_layer(model, ids[n], common);
    const Stopwatch watch(common.compute_s);
    const Tensor map = maps.next(loaded.layer, model.compute());
    if (!shown[n]) continue;
    report_warnings(
        {{loaded.id, not_finite_result(options.kind->name, map, loaded.layer.dims.batched)}},
        common);
    add_to_files(loaded, map, options, files);
  }
  for (DerivedFile& file : files) {
    file.title = fmt::format("{} · {}", options.kind->name, title_of(model));
    if (file.values.size() == 1 && !file.values[0].layer.empty())
      file.title += " layer " + render::visible(file.values[0].layer);
  }
  return files;
}

void write_arrays_of(const DerivedFile& file, const std::string& format) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const render::Value& value : file.values)
    arrays.emplace_back(value.name(file.values.size() > 1), value.numbers);
  write_arrays(file.path, format, arrays);
}

/// A side of a panel: the positions of one item without its padding, or their labels.
render::GridAxis axis_of(const render::Side& side, std::size_t item) {
  const render::Side own = side.without_padding(item);
  render::GridAxis axis{std::string(render::name_of(own.axis)), own.labels, !own.labels.empty()};
  if (own.labels.empty())
    for (const std::size_t position : own.positions)
      axis.labels.push_back(std::to_string(position));
  return axis;
}

/// One panel for each layer, batch item and head.
std::vector<render::MapPanel> panels_of(const std::vector<render::Value>& values) {
  std::vector<render::MapPanel> panels;
  for (const render::Value& value : values) {
    const std::size_t items = value.batch.count(), heads = value.head.count(),
                      rows = value.row.count(), cols = value.col.count();
    for (std::size_t b = 0; b < items; ++b)
      for (std::size_t h = 0; h < heads; ++h) {
        std::string title;
        const auto add = [&](const std::string& word) {
          title += (title.empty() ? "" : " ") + word;
        };
        if (values.size() > 1) add("L" + render::visible(value.layer));
        if (value.batch.exists() && items * heads > 1)
          add(fmt::format("B{}", value.batch.positions[b]));
        if (value.head.exists()) add(fmt::format("H{}", value.head.positions[h]));
        const render::GridAxis down = axis_of(value.row, b), across = axis_of(value.col, b);
        const double* const numbers =
            value.numbers.as<double>().data() + (b * heads + h) * rows * cols;
        std::vector<double> own;
        for (std::size_t r = 0; r < down.labels.size(); ++r)
          own.insert(own.end(), numbers + r * cols, numbers + r * cols + across.labels.size());
        panels.push_back(
            render::panel_of(title.empty() ? value.stage : title, down, across, std::move(own)));
      }
  }
  return panels;
}

void print_file(const DerivedFile& file, const DerivedOptions& options, Color color) {
  if (options.form == "npy") {
    if (file.values.size() > 1) fail("one .npy holds one layer; choose with --layer");
    return write_arrays_of(file, "npy");
  }
  const render::Form* const form = find_named(render::forms(), options.form);
  TextFile text(file.path);
  const auto renderer = form->make(
      {.text_style = text_style_of(options.output, color),
       .precision = options.precision,
       .labelled = std::ranges::any_of(
           file.values, [](const render::Value& value) { return !value.col.labels.empty(); }),
       .several_layers = file.values.size() > 1},
      text.sink());
  for (const render::Value& value : file.values) renderer->add(value);
  renderer->finish();
  text.finish();
}

} // namespace

const DerivedInfo* derived_among(const std::vector<std::string>& stages) {
  const DerivedInfo* found = nullptr;
  for (const std::string& name : stages)
    if (const DerivedInfo* kind = find_derived(name)) found = kind;
  if (found != nullptr && stages.size() > 1)
    throw UsageError(
        fmt::format("-s {} is made of several stages and shown alone; name it alone", found->name));
  return found;
}

void draw_derived(RunRequest request, const DerivedOptions& options, Common& common) {
  const std::vector<DerivedFile> files = computed_files(std::move(request), options, common);
  const Stopwatch watch(common.write_s);
  std::vector<std::vector<render::MapPanel>> pictures;
  std::vector<render::MapPanel> all;
  for (const DerivedFile& file : files) {
    pictures.push_back(panels_of(file.values));
    all.insert(all.end(), pictures.back().begin(), pictures.back().end());
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const render::Value& first = files[i].values[0];
    render::GridLook look;
    look.none = "NaN", look.colors = options.colors;
    if (files.size() > 1) look.others = render::range_of(all); // all files use one colour scale
    look.columns =
        render::grid_columns(pictures[i].size(), first.batch.count() * first.head.count());
    write_grid({files[i].path, options.form, options.figure, common.color}, files[i].title,
               pictures[i], look);
  }
}

void print_derived(RunRequest request, const DerivedOptions& options, Common& common) {
  for (const DerivedFile& file : computed_files(std::move(request), options, common)) {
    const Stopwatch watch(common.write_s);
    print_file(file, options, common.color);
  }
}

void dump_derived(RunRequest request, const DerivedOptions& options, Common& common) {
  for (const DerivedFile& file : computed_files(std::move(request), options, common)) {
    const Stopwatch watch(common.write_s);
    write_arrays_of(file, options.form);
  }
}

} // namespace mha::app
