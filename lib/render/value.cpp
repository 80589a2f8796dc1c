#include <mha/render/value.hpp>

#include <algorithm>

namespace mha::render {

namespace {

Side side_of(const Layer& layer, SelectedAxis axis) {
  Side side{axis.axis, std::move(axis.pick.indices), axis.pick.drops_axis, {}};
  const std::vector<std::string>* labels = nullptr;
  if (axis.axis == Axis::query) labels = &layer.tokens;
  // The keys that a layer computes are the current ones: their labels follow those of the past.
  if (axis.axis == Axis::key) labels = layer.key_tokens.empty() ? &layer.tokens : &layer.key_tokens;
  if (!labels || labels->empty()) return side;
  const bool current_only =
      axis.axis == Axis::key && axis.count == layer.dims.S && labels->size() == layer.dims.S_all;
  const std::size_t first = current_only ? layer.dims.past : 0;
  for (std::size_t position : side.positions)
    side.labels.push_back(first + position < labels->size() ? (*labels)[first + position]
                                                            : std::string());
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
  case Axis::width:
    return "";
  }
  return "";
}

std::string Value::name(bool with_layer) const {
  const std::string_view plain = mha::name_of(stage);
  return with_layer && !layer.empty() ? fmt::format("layers.{}.{}", layer, plain)
                                      : std::string(plain);
}

Value make_value(const Layer& layer, std::string layer_id, Stage stage, const Selection& selection,
                 Tensor numbers) {
  Value value;
  value.layer = std::move(layer_id);
  value.stage = stage;
  value.numbers = std::move(numbers);
  std::vector<Side> matrix;
  for (SelectedAxis& axis : selected_axes(layer, stage, selection)) {
    Side side = side_of(layer, std::move(axis));
    if (side.axis == Axis::batch)
      value.batch = std::move(side);
    else if (side.axis == Axis::head || side.axis == Axis::kv_head)
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
