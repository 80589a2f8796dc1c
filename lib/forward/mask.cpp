#include <mha/forward/mask.hpp>

#include <mha/forward/bias.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <limits>

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
bool masks_every_key(const Layer& layer, std::size_t b, std::size_t h, std::size_t t) {
  for (Stage stage : {Stage::masked, Stage::shifted, Stage::exp, Stage::row_sum})
    if (layer.has_given(stage)) return true;
  const Visible visible = visible_keys(layer, b, t);
  const std::size_t positioned = layer.dims.past + layer.dims.S;
  const auto covers = [](const Broadcast& mask, std::size_t j) {
    return j >= mask.first_key && j < mask.first_key + mask.keys;
  };
  const auto is_masked = [&](std::size_t j) {
    if (j < positioned && (j < visible.first || j >= visible.last)) return true;
    for (const Broadcast& mask : layer.blocked)
      if (covers(mask, j) &&
          mask.row<std::uint8_t>(b, h, t)[(j - mask.first_key) * mask.strides[3]] != 0)
        return true;
    const auto hides = [&](const Broadcast& numbers) {
      return covers(numbers, j) &&
             numbers.row<T>(b, h, t)[(j - numbers.first_key) * numbers.strides[3]] ==
                 -std::numeric_limits<T>::infinity();
    };
    return std::ranges::any_of(layer.added, hides) || std::ranges::any_of(layer.bias, hides);
  };
  for (std::size_t j = 0; j < layer.dims.S_all; ++j)
    if (!is_masked(j)) return false;
  return true;
}

template void add_masks(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                        std::size_t, float*);
template void add_masks(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                        std::size_t, double*);
template bool masks_every_key<float>(const Layer&, std::size_t, std::size_t, std::size_t);
template bool masks_every_key<double>(const Layer&, std::size_t, std::size_t, std::size_t);

} // namespace mha
