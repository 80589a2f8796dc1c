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

struct Side {
  Pick pick;
  std::vector<std::string> labels;
};

Side side_of(std::string_view axis, const Layer& layer, std::size_t item,
             const Selection& selection) {
  const Dims& dims = layer.dims;
  if (axis == "head") return {resolved(selection.head, dims.H, "heads"), {}};
  const bool query = axis == "query";
  Side side = query ? Side{chosen_queries(layer, selection), layer.tokens_of(item)}
                    : Side{chosen_keys(layer, selection), layer.key_tokens_of(item)};
  if (!side.labels.empty())
    side.labels.resize(query ? dims.T : dims.S_all); // padding has no labels
  return side;
}

/// The labels at the positions that are picked; padding has none.
std::vector<std::string> picked_labels(const Side& side) {
  std::vector<std::string> at;
  for (const std::size_t position : side.pick.indices)
    if (!side.labels.empty()) at.push_back(side.labels[position]);
  return at;
}

/// The positions that are picked of one batch item, without the padding at their end.
std::vector<std::size_t> without_padding(const Side& side, std::string_view axis,
                                         const Layer& layer, std::size_t item) {
  const Dims& dims = layer.dims;
  std::vector<std::size_t> own = side.pick.indices;
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

FlowOfLayer select_map(const FlowInfo& kind, const LoadedLayer& loaded, const Tensor& all,
                       const Selection& typed) {
  const Layer& layer = loaded.layer;
  const Dims& dims = layer.dims;
  const Selection selection = typed.placed(layer);
  require_axes_of(kind, layer, selection);
  const Pick items = resolved(selection.batch, dims.B, "batch items");
  const Pick heads = kind.of_heads ? resolved(selection.head, dims.H, "heads") : Pick{{0}, true};
  FlowOfLayer to;
  to.layer = loaded.id;
  const std::size_t H = kind.of_heads ? dims.H : 1, cols = all.shape().back(),
                    rows = all.shape()[all.rank() - 2];
  Shape shape;
  std::vector<double> numbers;
  for (const std::size_t b : items.indices)
    for (const std::size_t h : heads.indices) {
      const Side down = side_of(kind.rows, layer, b, selection),
                 across = side_of(kind.cols, layer, b, selection);
      FlowMatrix matrix{loaded.id,
                        {},
                        {},
                        without_padding(down, kind.rows, layer, b),
                        without_padding(across, kind.cols, layer, b),
                        down.labels,
                        across.labels,
                        {}};
      if (dims.batched) matrix.batch = b;
      if (kind.of_heads) matrix.head = h;
      matrix.values = Tensor(DType::f64, {matrix.rows.size(), matrix.cols.size()});
      const auto number = [&](std::size_t r, std::size_t c) {
        return all.as<double>()[((b * H + h) * rows + r) * cols + c];
      };
      double* next = matrix.values.as_mutable<double>().data();
      for (const std::size_t r : matrix.rows)
        for (const std::size_t c : matrix.cols) *next++ = number(r, c);
      for (const std::size_t r : down.pick.indices)
        for (const std::size_t c : across.pick.indices) numbers.push_back(number(r, c));
      if (h == heads.indices[0]) {
        to.row_tokens.push_back(picked_labels(down));
        to.col_tokens.push_back(picked_labels(across));
      }
      if (to.matrices.empty()) {
        to.batched = dims.batched && !items.drops_axis;
        if (dims.batched && !items.drops_axis) shape.push_back(items.indices.size());
        if (!heads.drops_axis) shape.push_back(heads.indices.size());
        if (!down.pick.drops_axis) shape.push_back(down.pick.indices.size());
        if (!across.pick.drops_axis) shape.push_back(across.pick.indices.size());
      }
      to.matrices.push_back(std::move(matrix));
    }
  to.value = Tensor::of<double>(shape, std::span<const double>(numbers));
  return to;
}

/// What one file gets, with its title.
struct FlowFile {
  std::string path, title;
  std::vector<FlowOfLayer> layers;
};

/// The files that the path of --output means for a layer, each with what of the map it gets.
std::vector<PlannedFile> files_of(const LoadedLayer& loaded, const FlowOptions& options) {
  if (mentions(options.output.path, "{head}") && !options.kind->of_heads)
    fail("{}: {} has no head axis for {{head}}; leave it out", options.output.path,
         options.kind->name);
  std::vector<Stage> like{Stage::weights}; // a stage with these axes
  return planned_files(options.output.path, loaded, options.selection, like, false);
}

/// Whether each layer is shown: those that --layer chose, of a rollout's that are all computed.
std::vector<bool> shown_of(const std::vector<std::string>& ids, const std::string& chosen) {
  if (chosen.empty() || chosen == "all") return std::vector<bool>(ids.size(), true);
  std::vector<bool> shown(ids.size(), false);
  for (const std::size_t n : IndexList(chosen, "--layer").resolve(ids.size(), "layers").indices)
    shown[n] = true;
  return shown;
}

/// Adds a layer's maps to their files.
void add_to_files(const LoadedLayer& loaded, const Tensor& all, const FlowOptions& options,
                  std::vector<FlowFile>& files) {
  for (const PlannedFile& planned : files_of(loaded, options)) {
    auto file = std::ranges::find(files, planned.path, &FlowFile::path);
    if (file == files.end()) file = files.insert(file, {planned.path, {}, {}});
    file->layers.push_back(select_map(*options.kind, loaded, all, planned.selection));
  }
}

/// Computes the map for the layers that --layer chose; a rollout needs all earlier ones, too.
std::vector<FlowFile> computed(Request request, const FlowOptions& options, Common& common) {
  const bool is_rollout = options.kind->kind == FlowKind::rollout;
  const std::string chosen = request.layer;
  const bool goes_through = is_rollout && request.has_text();
  if (goes_through) request.layer.clear();
  OpenedModel model = open_model(request, common);
  const std::vector<std::string>& ids = model.chosen();
  const std::vector<bool> shown = shown_of(ids, goes_through ? chosen : "");
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
    const Tensor all = flow.next(loaded.layer);
    if (!shown[n]) continue;
    report_warnings(
        {{loaded.id, not_finite_result(options.kind->name, all, loaded.layer.dims.batched)}},
        common);
    add_to_files(loaded, all, options, files);
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

/// The panels of a picture: layers, of a batch its items, of maps of heads the heads.
std::vector<render::GridPanel> panels_of(const std::vector<FlowOfLayer>& layers,
                                         const FlowInfo& kind) {
  std::vector<render::GridPanel> panels;
  for (const FlowOfLayer& layer : layers)
    for (const FlowMatrix& one : layer.matrices) {
      render::GridPanel panel;
      if (layers.size() > 1) panel.title += fmt::format("L{} ", render::visible(layer.layer));
      if (one.batch && layer.matrices.size() > 1) panel.title += fmt::format("B{} ", *one.batch);
      if (one.head) panel.title += fmt::format("H{} ", *one.head);
      panel.title = panel.title.empty() ? std::string(kind.name)
                                        : panel.title.substr(0, panel.title.size() - 1);
      panel.rows = {
          std::string(kind.rows), labels_at(one.rows, one.row_labels), !one.row_labels.empty(), {}};
      panel.cols = {
          std::string(kind.cols), labels_at(one.cols, one.col_labels), !one.col_labels.empty(), {}};
      panel.values.assign(one.values.as<double>().begin(), one.values.as<double>().end());
      panels.push_back(std::move(panel));
    }
  return panels;
}

void print_file(const FlowFile& flow, const FlowOptions& options, Color color) {
  const std::vector<FlowOfLayer>& layers = flow.layers;
  if (options.form == "npy") {
    if (layers.size() > 1) fail("one .npy holds one layer; choose with --layer");
    return write_flow_file(flow, options, "npy");
  }
  if (!is_one_of(options.form, {"json", "table", "csv", "tsv"}))
    throw UsageError(
        fmt::format("-s {}: table, csv, tsv, json or npy expected", options.kind->name));
  const render::TextStyle text_style = text_style_of(options.output, color);
  write_text(flow.path, options.form == "json" ? flow_json(layers, *options.kind, options.precision)
                        : options.form == "table"
                            ? flow_table(layers, *options.kind, flow.title, text_style)
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

void draw_flow(Request request, const FlowOptions& options, Common& common) {
  const std::vector<FlowFile> files = computed(std::move(request), options, common);
  const Stopwatch watch(common.write_s);
  std::vector<std::vector<render::GridPanel>> pictures;
  std::vector<render::GridPanel> all;
  for (const FlowFile& file : files) {
    pictures.push_back(panels_of(file.layers, *options.kind));
    all.insert(all.end(), pictures.back().begin(), pictures.back().end());
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    render::GridLook text_style;
    text_style.none = "NaN", text_style.colors = options.colors;
    if (files.size() > 1) text_style.others = render::range_of(all); // equal colours, equal numbers
    text_style.columns =
        render::grid_columns(pictures[i].size(), files[i].layers[0].matrices.size());
    write_grid({files[i].path, options.form, options.figure, common.color}, files[i].title,
               pictures[i], text_style);
  }
}

void print_flow(Request request, const FlowOptions& options, Common& common) {
  for (const FlowFile& file : computed(std::move(request), options, common)) {
    const Stopwatch watch(common.write_s);
    print_file(file, options, common.color);
  }
}

void dump_flow(Request request, const FlowOptions& options, Common& common) {
  for (const FlowFile& file : computed(std::move(request), options, common)) {
    const Stopwatch watch(common.write_s);
    write_flow_file(file, options, options.form);
  }
}

} // namespace mha::app
