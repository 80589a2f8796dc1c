// Maps derived from several stages or layers, such as attention rollout: computed, drawn, printed,
// dumped.

#include "flow.hpp"

#include "describe.hpp"
#include "flow_text.hpp"
#include "grid.hpp"
#include <mha/observe/not_finite.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <functional>

namespace mha::app {

namespace {

/// The selected positions of one axis of a map, and the labels of all positions of that axis.
struct AxisSelection {
  Pick pick;
  std::vector<std::string> labels;
};

AxisSelection axis_selection(std::string_view axis, const Layer& layer, std::size_t item,
                             const Selection& selection) {
  const Dims& dims = layer.dims;
  if (axis == "head") return {resolved(selection.head, dims.H, "heads"), {}};
  const bool query = axis == "query";
  AxisSelection result =
      query ? AxisSelection{chosen_queries(layer, selection), layer.tokens_of(item)}
            : AxisSelection{chosen_keys(layer, selection), layer.key_tokens_of(item)};
  if (!result.labels.empty())
    result.labels.resize(query ? dims.T : dims.S_all); // padding gets empty labels
  return result;
}

/// The labels of the selected positions; those of padding are empty.
std::vector<std::string> picked_labels(const AxisSelection& selected) {
  std::vector<std::string> at;
  for (const std::size_t position : selected.pick.indices)
    if (!selected.labels.empty()) at.push_back(selected.labels[position]);
  return at;
}

/// The selected positions of one batch item, without the padding at their end.
std::vector<std::size_t> without_padding(const AxisSelection& selected, std::string_view axis,
                                         const Layer& layer, std::size_t item) {
  const Dims& dims = layer.dims;
  std::vector<std::size_t> own = selected.pick.indices;
  // Extra and zero keys (add_bias_kv, add_zero_attn) come after the padding: none is at the end.
  if (axis == "head" || (axis == "key" && dims.extra + dims.zero > 0)) return own;
  const std::size_t end = layer.length_of(item) + (axis == "key" ? dims.past : 0);
  while (own.size() > 1 && own.back() >= end && !layer.lengths.empty()) own.pop_back();
  return own;
}

void require_axes_of(const FlowInfo& kind, const Layer& layer, const Selection& selection) {
  const auto has = [&](std::string_view axis) { return kind.rows == axis || kind.cols == axis; };
  const auto refuse = [&](const std::optional<IndexList>& list, std::string_view axis) {
    if (list) fail("{} {}: {} has no {} axis", list->option(), list->text(), kind.name, axis);
  };
  if (!kind.of_heads && !has("head")) refuse(selection.head, "head");
  if (!has("query")) refuse(selection.query, "query");
  if (!has("key")) refuse(selection.key, "key");
  if (!layer.dims.batched) refuse(selection.batch, "batch");
}

/// The selected part of a layer's map. `value` keeps padding, for arrays; `matrices` drop it, for
/// text and pictures.
FlowOfLayer select_map(const FlowInfo& kind, const LoadedLayer& loaded, const Tensor& map,
                       const Selection& requested) {
  const Layer& layer = loaded.layer;
  const Dims& dims = layer.dims;
  const Selection selection = requested.placed(layer);
  require_axes_of(kind, layer, selection);
  const Pick items = resolved(selection.batch, dims.B, "batch items");
  const Pick heads = kind.of_heads ? resolved(selection.head, dims.H, "heads") : Pick{{0}, true};
  FlowOfLayer result;
  result.layer = loaded.id;
  const std::size_t H = kind.of_heads ? dims.H : 1, cols = map.shape().back(),
                    rows = map.shape()[map.rank() - 2];
  Shape shape;
  std::vector<double> padded_values;
  for (const std::size_t b : items.indices)
    for (const std::size_t h : heads.indices) {
      const AxisSelection row_axis = axis_selection(kind.rows, layer, b, selection),
                          col_axis = axis_selection(kind.cols, layer, b, selection);
      FlowMatrix matrix{loaded.id,
                        {},
                        {},
                        without_padding(row_axis, kind.rows, layer, b),
                        without_padding(col_axis, kind.cols, layer, b),
                        row_axis.labels,
                        col_axis.labels,
                        {}};
      if (dims.batched) matrix.batch = b;
      if (kind.of_heads) matrix.head = h;
      matrix.values = Tensor(DType::f64, {matrix.rows.size(), matrix.cols.size()});
      const auto value_at = [&](std::size_t r, std::size_t c) {
        return map.as<double>()[((b * H + h) * rows + r) * cols + c];
      };
      double* next = matrix.values.as_mutable<double>().data();
      for (const std::size_t r : matrix.rows)
        for (const std::size_t c : matrix.cols) *next++ = value_at(r, c);
      for (const std::size_t r : row_axis.pick.indices)
        for (const std::size_t c : col_axis.pick.indices) padded_values.push_back(value_at(r, c));
      if (h == heads.indices[0]) {
        result.row_tokens.push_back(picked_labels(row_axis));
        result.col_tokens.push_back(picked_labels(col_axis));
      }
      if (result.matrices.empty()) {
        result.batched = dims.batched && !items.drops_axis;
        if (dims.batched && !items.drops_axis) shape.push_back(items.indices.size());
        if (!heads.drops_axis) shape.push_back(heads.indices.size());
        if (!row_axis.pick.drops_axis) shape.push_back(row_axis.pick.indices.size());
        if (!col_axis.pick.drops_axis) shape.push_back(col_axis.pick.indices.size());
      }
      result.matrices.push_back(std::move(matrix));
    }
  result.value = Tensor::of<double>(shape, std::span<const double>(padded_values));
  return result;
}

/// The maps that one output file holds, and its title.
struct FlowFile {
  std::string path, title;
  std::vector<FlowOfLayer> layers;
};

/// The output files of a layer after {layer}, {batch} and {head} are filled in, each with the part
/// of the map it holds.
std::vector<PlannedFile> files_of(const LoadedLayer& loaded, const FlowOptions& options) {
  if (mentions(options.output.path, "{head}") && !options.kind->of_heads)
    fail("{}: {} has no head axis for {{head}}; leave it out", options.output.path,
         options.kind->name);
  // planned_files needs a stage only for its axes; `false`: no stage was named by the user.
  std::vector<Stage> stages_with_axes{Stage::weights};
  return planned_files(options.output.path, loaded, options.selection, stages_with_axes, false);
}

/// For each computed layer, whether --layer chose it; a rollout also computes the layers below.
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
void add_to_files(const LoadedLayer& loaded, const Tensor& map, const FlowOptions& options,
                  std::vector<FlowFile>& files) {
  for (const PlannedFile& planned : files_of(loaded, options)) {
    auto file = std::ranges::find(files, planned.path, &FlowFile::path);
    if (file == files.end()) file = files.insert(file, {planned.path, {}, {}});
    file->layers.push_back(select_map(*options.kind, loaded, map, planned.selection));
  }
}

/// Computes the map for the layers that --layer chose; a rollout needs all earlier ones, too.
std::vector<FlowFile> compute_flow_files(RunRequest request, const FlowOptions& options,
                                         Common& common) {
  const bool is_rollout = options.kind->kind == FlowKind::rollout;
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
  Flow flow(options.kind->kind, common.threads);
  std::vector<FlowFile> files;
  const std::size_t last = static_cast<std::size_t>(
      std::ranges::find(shown.rbegin(), shown.rend(), true).base() - shown.begin());
  for (std::size_t n = 0; n < last; ++n) {
    const LoadedLayer loaded = load_layer(model, ids[n], common);
    const Stopwatch watch(common.compute_s);
    const Tensor map = flow.next(loaded.layer, model.compute());
    if (!shown[n]) continue;
    report_warnings(
        {{loaded.id, not_finite_result(options.kind->name, map, loaded.layer.dims.batched)}},
        common);
    add_to_files(loaded, map, options, files);
  }
  for (FlowFile& file : files) {
    file.title = fmt::format("{} · {}", options.kind->name, title_of(model));
    if (file.layers.size() == 1 && !file.layers[0].layer.empty())
      file.title += " layer " + render::visible(file.layers[0].layer);
  }
  return files;
}

void write_flow_file(const FlowFile& file, const FlowOptions& options, const std::string& format) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const FlowOfLayer& layer : file.layers)
    arrays.emplace_back(item_name(layer, *options.kind, file.layers.size() > 1), layer.value);
  write_arrays(file.path, format, arrays);
}

/// One panel for each layer, batch item and head.
std::vector<render::MapPanel> panels_of(const std::vector<FlowOfLayer>& layers,
                                        const FlowInfo& kind) {
  std::vector<render::MapPanel> panels;
  for (const FlowOfLayer& layer : layers)
    for (const FlowMatrix& one : layer.matrices) {
      std::string title;
      if (layers.size() > 1) title += fmt::format("L{} ", render::visible(layer.layer));
      if (one.batch && layer.matrices.size() > 1) title += fmt::format("B{} ", *one.batch);
      if (one.head) title += fmt::format("H{} ", *one.head);
      title = title.empty() ? std::string(kind.name) : title.substr(0, title.size() - 1);
      const std::span<const double> values = one.values.as<double>();
      panels.push_back(render::panel_of(std::move(title),
                                        {std::string(kind.rows),
                                         labels_at(one.rows, one.row_labels),
                                         !one.row_labels.empty(),
                                         {}},
                                        {std::string(kind.cols),
                                         labels_at(one.cols, one.col_labels),
                                         !one.col_labels.empty(),
                                         {}},
                                        {values.begin(), values.end()}));
    }
  return panels;
}

void print_file(const FlowFile& file, const FlowOptions& options, Color color) {
  const std::vector<FlowOfLayer>& layers = file.layers;
  if (options.form == "npy") {
    if (layers.size() > 1) fail("one .npy holds one layer; choose with --layer");
    return write_flow_file(file, options, "npy");
  }
  if (!is_one_of(options.form, {"json", "table", "csv", "tsv"}))
    throw UsageError(
        fmt::format("-s {}: table, csv, tsv, json or npy expected", options.kind->name));
  const render::TextStyle text_style = text_style_of(options.output, color);
  write_text(file.path, options.form == "json" ? flow_json(layers, *options.kind, options.precision)
                        : options.form == "table"
                            ? flow_table(layers, *options.kind, file.title, text_style)
                            : flow_csv(layers, *options.kind, options.form, options.precision));
}

} // namespace

const FlowInfo* flow_among(const std::vector<std::string>& stages) {
  const FlowInfo* found = nullptr;
  for (const std::string& name : stages)
    if (const FlowInfo* kind = find_flow(name)) found = kind;
  if (found != nullptr && stages.size() > 1)
    throw UsageError(
        fmt::format("-s {} is made of several stages and shown alone; name it alone", found->name));
  return found;
}

void draw_flow(RunRequest request, const FlowOptions& options, Common& common) {
  const std::vector<FlowFile> files = compute_flow_files(std::move(request), options, common);
  const Stopwatch watch(common.write_s);
  std::vector<std::vector<render::MapPanel>> pictures;
  std::vector<render::MapPanel> all;
  for (const FlowFile& file : files) {
    pictures.push_back(panels_of(file.layers, *options.kind));
    all.insert(all.end(), pictures.back().begin(), pictures.back().end());
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    render::GridLook look;
    look.none = "NaN", look.colors = options.colors;
    if (files.size() > 1) look.others = render::range_of(all); // all files use one colour scale
    look.columns = render::grid_columns(pictures[i].size(), files[i].layers[0].matrices.size());
    write_grid({files[i].path, options.form, options.figure, common.color}, files[i].title,
               pictures[i], look);
  }
}

void print_flow(RunRequest request, const FlowOptions& options, Common& common) {
  for (const FlowFile& file : compute_flow_files(std::move(request), options, common)) {
    const Stopwatch watch(common.write_s);
    print_file(file, options, common.color);
  }
}

void dump_flow(RunRequest request, const FlowOptions& options, Common& common) {
  for (const FlowFile& file : compute_flow_files(std::move(request), options, common)) {
    const Stopwatch watch(common.write_s);
    write_flow_file(file, options, options.form);
  }
}

} // namespace mha::app
