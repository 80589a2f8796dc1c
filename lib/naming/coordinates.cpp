#include <mha/naming/coordinates.hpp>

#include <utility>

namespace mha {

namespace {

std::optional<std::string> label_at(const std::vector<std::string>& labels, std::size_t i) {
  return i < labels.size() ? std::optional(labels[i]) : std::nullopt;
}

} // namespace

std::vector<Coordinate> coordinates_of(const Layer& layer, Stage stage,
                                       const std::vector<std::size_t>& at) {
  std::vector<Dim> letters = info_of(stage).letters;
  if (layer.settings.columns && info_of(stage).kind != Kind::row)
    std::swap(letters.end()[-1], letters.end()[-2]);
  std::vector<Coordinate> list;
  if (layer.dims.batched) list.push_back({"batch", at[0]});
  const std::size_t item = layer.dims.batched ? at[0] : 0;
  for (Dim letter : letters) {
    const std::size_t i = at[list.size()];
    switch (axis_of(letter)) {
    case Axis::kv_head:
      list.push_back({layer.dims.H == layer.dims.H_kv ? "head" : "key/value head", i});
      break;
    case Axis::query:
      list.push_back({"query", i, label_at(layer.tokens_of(item), i)});
      break;
    case Axis::key: // labels count every key, k and v the current ones
      list.push_back(
          {"key", i,
           label_at(layer.key_tokens_of(item), letter == Dim::S ? layer.dims.past + i : i)});
      break;
    case Axis::head:
      list.push_back({"head", i});
      break;
    default:
      list.push_back({"dimension", i});
      break;
    }
  }
  return list;
}

} // namespace mha
