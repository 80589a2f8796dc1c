#include "derived_maps.hpp"

#include "describe.hpp"
#include "figures.hpp"
#include <mha/naming/stage_names.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/render/value.hpp>

#include <algorithm>
#include <deque>

namespace mha::app {

namespace {

/// The values of one picture, one for each layer.
struct DerivedFile {
  std::string path;
  std::vector<render::Value> values;
};

/// Computes a layer's matrices and adds them to their files.
void add_layer(const LoadedLayer& loaded, Stage stage, const DerivedPictures& asked,
               const ComputeLayer& by, Common& common, std::vector<DerivedFile>& files) {
  const Layer& layer = loaded.layer;
  const Selection selection = asked.selection.placed(layer);
  std::vector<Stage> wanted{stage};
  require_axes(layer, wanted, selection);
  const std::vector<PlannedFile> planned =
      planned_files(asked.output.path, loaded, selection, wanted, true);
  std::deque<Trace> parts;
  Several all;
  for (const PlannedFile& file : planned)
    all.add(parts.emplace_back(layer, wanted, file.selection));
  {
    const Stopwatch watch(common.compute_s);
    by(layer, make_plan(layer, all.wants(), selection), all, common.threads);
  }
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Tensor& numbers = parts[i].value(stage);
    report_warnings({{loaded.id, not_finite_result(name_of(stage), numbers, true)}}, common);
    auto file = std::ranges::find(files, planned[i].path, &DerivedFile::path);
    if (file == files.end()) file = files.insert(file, {planned[i].path, {}});
    file->values.push_back(
        render::make_value(layer, loaded.id, stage, planned[i].selection, numbers));
  }
}

/// The axis of a panel: the labels or positions of one item without padding.
render::GridAxis axis_of(const render::Side& side, std::size_t item) {
  const render::Side own = side.without_padding(item);
  render::GridAxis axis{std::string(render::name_of(own.axis)), own.labels, !own.labels.empty()};
  if (own.labels.empty())
    for (const std::size_t position : own.positions)
      axis.labels.push_back(std::to_string(position));
  return axis;
}

/// One panel for each layer, batch item and head.
std::vector<render::MapPanel> derived_panels(const std::vector<render::Value>& values) {
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

} // namespace

void draw_derived(const RunRequest& request, const DerivedPictures& asked, Common& common) {
  OpenedModel model = open_model(request, common);
  std::vector<DerivedFile> files;
  const Stage stage = stage_named(request.stages.at(0));
  for (const std::string& id : model.chosen())
    add_layer(load_layer(model, id, common), stage, asked, model.compute(), common, files);
  const Stopwatch watch(common.write_s);
  std::vector<std::vector<render::MapPanel>> pictures;
  std::vector<render::MapPanel> all;
  for (const DerivedFile& file : files) {
    pictures.push_back(derived_panels(file.values));
    all.insert(all.end(), pictures.back().begin(), pictures.back().end());
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const render::Value& first = files[i].values[0];
    std::string title = fmt::format("{} · {}", name_of(stage), title_of(model));
    if (files[i].values.size() == 1 && !first.layer.empty())
      title += " layer " + render::visible(first.layer);
    render::GridLook look;
    look.none = "NaN", look.colors = asked.colors;
    if (files.size() > 1) look.others = render::range_of(all); // all files use one colour scale
    look.columns =
        render::grid_columns(pictures[i].size(), first.batch.count() * first.head.count());
    write_grid({files[i].path, asked.form, asked.figure, common.color}, title, pictures[i], look);
  }
}

} // namespace mha::app
