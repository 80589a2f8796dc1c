#include "flow.hpp"

#include "describe.hpp"
#include "flow_text.hpp"
#include "grid.hpp"
#include <mha/formats/create.hpp>

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

/// Computes the map for the layers that --layer chose; a rollout needs all earlier ones, too.
std::vector<FlowOfLayer> computed(Request request, const FlowOptions& options, Common& common,
                                  std::string& title) {
  const bool is_rollout = options.kind->kind == FlowKind::rollout;
  const std::string chosen = request.layer;
  if (is_rollout && request.has_text()) request.layer.clear();
  OpenedModel model = open_model(request, common);
  title = fmt::format("{} · {}", options.kind->name, title_of(model));
  const std::vector<std::string>& ids = model.chosen();
  std::vector<bool> shown(ids.size(), true);
  if (is_rollout && request.has_text() && !chosen.empty() && chosen != "all") {
    shown.assign(ids.size(), false);
    for (const std::size_t n : IndexList(chosen, "--layer").resolve(ids.size(), "layers").indices)
      shown[n] = true;
  }
  if (is_rollout && !ids.empty() && !request.has_text() && ids.front() != "0" &&
      !ids.front().empty())
    fail("a rollout begins at layer 0: --layer 0-{}", ids.back());
  Flow flow(options.kind->kind, common.threads);
  std::vector<FlowOfLayer> list;
  const std::size_t last = static_cast<std::size_t>(
      std::ranges::find(shown.rbegin(), shown.rend(), true).base() - shown.begin());
  for (std::size_t n = 0; n < last; ++n) {
    const LoadedLayer loaded = load_layer(model, ids[n], common);
    const Stopwatch watch(common.compute_s);
    const Tensor all = flow.next(loaded.layer);
    if (shown[n]) list.push_back(select_map(*options.kind, loaded, all, options.selection));
  }
  if (list.size() == 1 && !list[0].layer.empty())
    title += " layer " + render::visible(list[0].layer);
  return list;
}

void write_flow_file(const std::vector<FlowOfLayer>& layers, const FlowOptions& options,
                     const std::string& format) {
  io::Output out;
  for (const FlowOfLayer& layer : layers)
    out.items.push_back(
        {item_name(layer, *options.kind, layers.size() > 1), DType::f64, layer.value.shape()});
  const std::string path = options.output.path.empty() ? "-" : options.output.path;
  const std::unique_ptr<io::Writer> writer = io::create(path, format, out);
  for (std::size_t i = 0; i < layers.size(); ++i)
    writer->write(i, 0, layers[i].value.raw(), layers[i].value.count());
  writer->finish();
}

void require_no_placeholder(const FlowOptions& options) {
  for (const std::string_view placeholder : all_placeholders)
    if (mentions(options.output.path, placeholder))
      throw UsageError(fmt::format("{}: {} is written whole; leave {} out", options.output.path,
                                   options.kind->name, placeholder));
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
  require_no_placeholder(options);
  std::string title;
  const std::vector<FlowOfLayer> layers = computed(std::move(request), options, common, title);
  std::vector<render::GridPanel> panels;
  for (const FlowOfLayer& layer : layers)
    for (const FlowMatrix& one : layer.matrices) {
      render::GridPanel panel;
      if (layers.size() > 1) panel.title += fmt::format("L{} ", render::visible(layer.layer));
      if (one.batch && layer.matrices.size() > 1) panel.title += fmt::format("B{} ", *one.batch);
      if (one.head) panel.title += fmt::format("H{} ", *one.head);
      panel.title = panel.title.empty() ? std::string(options.kind->name)
                                        : panel.title.substr(0, panel.title.size() - 1);
      panel.rows = {std::string(options.kind->rows),
                    labels_at(one.rows, one.row_labels),
                    !one.row_labels.empty(),
                    {}};
      panel.cols = {std::string(options.kind->cols),
                    labels_at(one.cols, one.col_labels),
                    !one.col_labels.empty(),
                    {}};
      panel.values.assign(one.values.as<double>().begin(), one.values.as<double>().end());
      panels.push_back(std::move(panel));
    }
  const Stopwatch watch(common.write_s);
  write_grid({options.output.path, options.form, options.figure, common.color}, title, panels,
             {.none = "NaN",
              .columns = render::grid_columns(panels.size(), layers[0].matrices.size()),
              .colors = options.colors});
}

void print_flow(Request request, const FlowOptions& options, Common& common) {
  require_no_placeholder(options);
  std::string title;
  const std::vector<FlowOfLayer> layers = computed(std::move(request), options, common, title);
  const Stopwatch watch(common.write_s);
  if (options.form == "npy") {
    if (layers.size() > 1) fail("one .npy holds one layer; choose with --layer");
    flush();
    write_flow_file(layers, options, "npy");
    return;
  }
  TextFile file(options.output.path);
  const render::TextStyle look = look_of(options.output, common.color);
  if (options.form == "json")
    file.sink()(flow_json(layers, *options.kind, options.precision));
  else if (options.form == "table")
    file.sink()(flow_table(layers, *options.kind, title, look));
  else if (options.form == "csv" || options.form == "tsv")
    file.sink()(
        flow_csv(layers, *options.kind, options.form == "tsv" ? '\t' : ',', options.precision));
  else
    throw UsageError(
        fmt::format("-s {}: table, csv, tsv, json or npy expected", options.kind->name));
  file.finish();
}

void dump_flow(Request request, const FlowOptions& options, Common& common) {
  require_no_placeholder(options);
  std::string title;
  const std::vector<FlowOfLayer> layers = computed(std::move(request), options, common, title);
  const Stopwatch watch(common.write_s);
  write_flow_file(layers, options, options.form);
}

} // namespace mha::app
