#include <mha/forward/mask.hpp>

#include <mha/forward/bias.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace mha {

template <class T> void add_masks(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                  std::size_t first, std::size_t last, T* row) {
  constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
  for (const Broadcast& mask : layer.added) add_broadcast(mask, b, h, t, first, last, row);
  for (const Broadcast& mask : layer.blocked) {
    const std::uint8_t* values = mask.row<std::uint8_t>(b, h, t);
    const std::size_t from = std::max(first, mask.first_key),
                      to = std::min(last, mask.first_key + mask.keys);
    for (std::size_t j = from; j < to; ++j)
      if (values[(j - mask.first_key) * mask.strides[3]]) row[j] = minus_infinity;
  }
  const Visible visible = visible_keys(layer, b, t);
  const std::size_t positioned = layer.dims.past + layer.dims.S;
  std::fill(row + first, row + std::clamp(visible.first, first, last), minus_infinity);
  std::fill(row + std::clamp(visible.last, first, last), row + std::clamp(positioned, first, last),
            minus_infinity);
}

template <class T>
void mask_row(const Layer& layer, std::size_t b, std::size_t h, std::size_t t, T* row) {
  const std::size_t keys = layer.dims.S_all;
  for (const Stage stage : {Stage::shifted, Stage::masked})
    if (layer.has_given(stage)) {
      const std::size_t first = ((b * layer.dims.H + h) * layer.dims.T + t) * keys;
      std::copy_n(layer.given[index_of(stage)].template as<T>().data() + first, keys, row);
      return;
    }
  std::fill_n(row, keys, T(0));
  add_bias(layer, b, h, t, 0, keys, row);
  add_masks(layer, b, h, t, 0, keys, row);
}

template <class T>
bool masks_every_key(const Layer& layer, std::size_t b, std::size_t h, std::size_t t) {
  for (const Stage stage : {Stage::masked, Stage::shifted, Stage::exp, Stage::row_sum})
    if (layer.has_given(stage)) return true;
  std::vector<T> row(layer.dims.S_all);
  mask_row(layer, b, h, t, row.data());
  return std::ranges::all_of(row,
                             [](T mask) { return mask == -std::numeric_limits<T>::infinity(); });
}

template void add_masks(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                        std::size_t, float*);
template void add_masks(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                        std::size_t, double*);
template void mask_row(const Layer&, std::size_t, std::size_t, std::size_t, float*);
template void mask_row(const Layer&, std::size_t, std::size_t, std::size_t, double*);
template bool masks_every_key<float>(const Layer&, std::size_t, std::size_t, std::size_t);
template bool masks_every_key<double>(const Layer&, std::size_t, std::size_t, std::size_t);

} // namespace mha
