#include <mha/forward/mask.hpp>

#include <mha/forward/bias.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace mha {

template <class T> void add_masks(const Layer& layer, const RowPlace& at, Keys<T> keys) {
  constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
  for (const Broadcast& mask : layer.added) add_broadcast(mask, at, keys);
  for (const Broadcast& mask : layer.blocked) {
    const std::uint8_t* blocked = mask.row<std::uint8_t>(at.batch, at.head, at.query);
    const Keys<T> covered = keys.within(mask.first_key, mask.first_key + mask.keys);
    for (std::size_t j = covered.first; j < covered.last; ++j)
      if (blocked[(j - mask.first_key) * mask.strides[3]]) covered.row[j] = minus_infinity;
  }
  const Visible visible = visible_keys(layer, at.batch, at.query);
  std::ranges::fill(keys.within(0, visible.first), minus_infinity);
  std::ranges::fill(keys.within(visible.last, layer.dims.past + layer.dims.S), minus_infinity);
}

template <class T> void mask_row(const Layer& layer, const RowPlace& at, T* row) {
  const Dims& dims = layer.dims;
  for (const Stage stage : {Stage::shifted, Stage::masked})
    if (layer.has_given(stage)) {
      const std::size_t number = (at.batch * dims.H + at.head) * dims.T + at.query;
      const T* given = layer.given[index_of(stage)].template as<T>().data();
      std::copy_n(given + number * dims.S_all, dims.S_all, row);
      return;
    }
  const Keys<T> keys{row, 0, dims.S_all};
  std::ranges::fill(keys, T(0));
  add_bias(layer, at, keys);
  add_masks(layer, at, keys);
}

template <class T> bool masks_every_key(const Layer& layer, const RowPlace& at) {
  for (const Stage stage : {Stage::masked, Stage::shifted, Stage::exp, Stage::row_sum})
    if (layer.has_given(stage)) return true;
  std::vector<T> row(layer.dims.S_all);
  mask_row(layer, at, row.data());
  return std::ranges::all_of(row,
                             [](T mask) { return mask == -std::numeric_limits<T>::infinity(); });
}

template void add_masks(const Layer&, const RowPlace&, Keys<float>);
template void add_masks(const Layer&, const RowPlace&, Keys<double>);
template void mask_row(const Layer&, const RowPlace&, float*);
template void mask_row(const Layer&, const RowPlace&, double*);
template bool masks_every_key<float>(const Layer&, const RowPlace&);
template bool masks_every_key<double>(const Layer&, const RowPlace&);

} // namespace mha
