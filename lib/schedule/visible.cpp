#include <mha/schedule/visible.hpp>

#include <algorithm>

namespace mha {

std::size_t keys_of(const Layer& layer, std::size_t b) {
  return layer.dims.past + (layer.lengths.empty() ? layer.dims.S : layer.lengths[b]);
}

Visible visible_keys(const Layer& layer, std::size_t b, std::size_t t) {
  const Settings& s = layer.settings;
  const auto keys = static_cast<std::ptrdiff_t>(keys_of(layer, b));
  const std::ptrdiff_t query = layer.query_position(b, t);
  std::ptrdiff_t first = 0, last = keys;
  if (!layer.kv_lengths.empty())
    last = std::min(last, static_cast<std::ptrdiff_t>(layer.kv_lengths[b]));
  if (s.causal) last = std::min(last, query + 1);
  if (s.window_right >= 0)
    last = std::min(last, query + static_cast<std::ptrdiff_t>(s.window_right) + 1);
  if (s.window_left >= 0)
    first = std::max(first, query - static_cast<std::ptrdiff_t>(s.window_left));
  if (s.window_chunk > 0 && query >= 0) {
    const auto chunk = static_cast<std::ptrdiff_t>(s.window_chunk);
    first = std::max(first, query / chunk * chunk);
    last = std::min(last, (query / chunk + 1) * chunk);
  }
  first = std::clamp<std::ptrdiff_t>(first, 0, keys);
  last = std::clamp<std::ptrdiff_t>(last, first, keys);
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

std::size_t computed_keys(const Layer& layer, std::size_t b) {
  const Dims& dims = layer.dims;
  return dims.extra + dims.zero > 0 ? dims.S_all : keys_of(layer, b);
}

Visible visible_tiles(const Layer& layer, std::size_t b, std::size_t first_query,
                      std::size_t queries, std::size_t step) {
  const std::size_t all = computed_keys(layer, b);
  // Both bounds grow with the query, so the block sees from the first row's first key to the last
  // row's last.
  const Visible first = visible_keys(layer, b, first_query),
                last = visible_keys(layer, b, first_query + queries - 1);
  Visible tiles{first.first / step * step, (last.last + step - 1) / step * step};
  tiles.last = std::min(tiles.last, all);
  if (layer.dims.extra + layer.dims.zero > 0) tiles.last = all;
  tiles.first = std::min(tiles.first, tiles.last);
  return tiles;
}

} // namespace mha
