#include <mha/render/value.hpp>

#include <mha/naming/formula.hpp>

#include <algorithm>

namespace mha::render {

namespace {

/// The labels of a side's positions in one batch item; empty: none.
std::vector<std::string> labels_of(const Layer& layer, const Side& side, std::size_t count,
                                   std::size_t batch) {
  const std::vector<std::string>* labels = nullptr;
  if (side.axis == Axis::query) labels = &layer.tokens_of(batch);
  // The keys that a layer computes are the current ones: their labels follow those of the past.
  if (side.axis == Axis::key)
    labels = layer.key_tokens.empty() ? &layer.tokens_of(batch) : &layer.key_tokens_of(batch);
  if (!labels || labels->empty()) return {};
  const bool current_only =
      side.axis == Axis::key && count == layer.dims.S && labels->size() == layer.dims.S_all;
  const std::size_t first = current_only ? layer.dims.past : 0;
  std::vector<std::string> list;
  for (std::size_t position : side.positions)
    list.push_back(first + position < labels->size() ? (*labels)[first + position] : std::string());
  return list;
}

/// The number of positions of a side in one batch item, without the padding at the end.
std::size_t own_count(const Layer& layer, const Side& side, std::size_t count, std::size_t batch) {
  const Dims& dims = layer.dims;
  std::size_t end = count;
  if (side.axis == Axis::query || (side.axis == Axis::key && count == dims.S))
    end = layer.length_of(batch);
  else if (side.axis == Axis::key && dims.extra + dims.zero == 0)
    end = dims.past + layer.length_of(batch);
  std::size_t own = side.positions.size();
  while (own > 0 && side.positions[own - 1] >= end) --own;
  return own;
}

Side side_of(const Layer& layer, SelectedAxis axis, const std::vector<std::size_t>& batches) {
  Side side{axis.axis, std::move(axis.pick.indices), axis.pick.drops_axis, {}};
  side.labels = labels_of(layer, side, axis.count, batches.empty() ? 0 : batches[0]);
  if (!layer.item_tokens.empty() || !layer.item_key_tokens.empty())
    for (std::size_t batch : batches)
      side.of_items.push_back(labels_of(layer, side, axis.count, batch));
  if (!layer.lengths.empty())
    for (std::size_t batch : batches)
      side.own_counts.push_back(own_count(layer, side, axis.count, batch));
  return side;
}

} // namespace

std::string_view name_of(Axis axis) {
  switch (axis) {
  case Axis::batch:
    return "batch";
  case Axis::head:
    return "head";
  case Axis::kv_head:
    return "key/value head";
  case Axis::query:
    return "query";
  case Axis::key:
    return "key";
  case Axis::chosen:
    return "expert";
  case Axis::width:
    return "";
  }
  return "";
}

Side Side::of_item(std::size_t b) const {
  return {axis, positions, dropped, labels_of(b), absent};
}

Side Side::without_padding(std::size_t b) const {
  Side side = of_item(b);
  if (absent) return side;
  side.positions.resize(count_of(b));
  if (!side.labels.empty()) side.labels.resize(side.positions.size());
  return side;
}

std::string Value::name(bool with_layer) const {
  return with_layer && !layer.empty() ? fmt::format("layers.{}.{}", layer, stage) : stage;
}

Value make_value(const Layer& layer, std::string layer_id, Stage stage, const Selection& selection,
                 Tensor numbers) {
  Value value;
  value.layer = std::move(layer_id);
  value.stage = mha::name_of(stage);
  value.formula = formula_of(layer, stage);
  if (value.formula.empty()) value.formula = info_of(stage).value;
  value.numbers = std::move(numbers);
  std::vector<Side> matrix;
  std::vector<std::size_t> batches;
  for (SelectedAxis& axis : selected_axes(layer, stage, selection)) {
    Side side = side_of(layer, std::move(axis), batches);
    if (side.axis == Axis::batch) batches = side.positions;
    // Heads beside keys, or side by side, are the rows of one matrix.
    const bool of_each_head = !is_derived(stage) || info_of(stage).letters.size() == 3;
    if (side.axis == Axis::batch)
      value.batch = std::move(side);
    else if (of_each_head && (side.axis == Axis::head || side.axis == Axis::kv_head))
      value.head = std::move(side);
    else
      matrix.push_back(std::move(side));
  }
  if (layer.settings.columns && matrix.size() == 2) std::swap(matrix[0], matrix[1]);
  if (!matrix.empty()) value.row = std::move(matrix[0]);
  if (matrix.size() > 1) value.col = std::move(matrix[1]);
  return value;
}

} // namespace mha::render
