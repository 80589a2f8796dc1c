#include <mha/observe/masked_keys.hpp>

#include <mha/forward/mask.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <limits>

namespace mha {

namespace {

bool has_tensors(const Layer& layer) {
  return !layer.added.empty() || !layer.blocked.empty() || !layer.bias.empty();
}

bool has_given_mask(const Layer& layer) {
  return layer.has_given(Stage::masked) || layer.has_given(Stage::shifted);
}

/// If finite numbers mask all keys, the softmax attends nevertheless, so that only −inf hides.
template <class T> void from_tensors(const Layer& layer, std::size_t b, std::size_t h,
                                     std::size_t t, std::vector<std::uint8_t>& masked) {
  thread_local std::vector<T> row;
  row.resize(layer.dims.S_all);
  mask_row(layer, {b, h, t}, row.data());
  const bool any_is_seen = !std::ranges::all_of(row, is_masked<T>);
  const auto hidden = [&](T mask) {
    return any_is_seen ? is_masked(mask) : mask == -std::numeric_limits<T>::infinity();
  };
  std::ranges::transform(row, masked.begin(), hidden);
}

} // namespace

bool has_masks(const Layer& layer) {
  const Settings& s = layer.settings;
  return has_given_mask(layer) || has_tensors(layer) || s.causal || s.window_left >= 0 ||
         s.window_right >= 0 || !layer.kv_lengths.empty();
}

bool masks_differ_by_head(const Layer& layer) {
  const auto by_head = [](const Broadcast& mask) { return mask.strides[1] != 0; };
  return has_given_mask(layer) || std::any_of(layer.added.begin(), layer.added.end(), by_head) ||
         std::any_of(layer.blocked.begin(), layer.blocked.end(), by_head) ||
         std::any_of(layer.bias.begin(), layer.bias.end(), by_head);
}

void masked_keys(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                 std::vector<std::uint8_t>& masked) {
  const Dims& dims = layer.dims;
  masked.assign(dims.S_all, 0);
  if (has_given_mask(layer) || has_tensors(layer)) {
    by_precision(layer.dtype, [&]<class T>(T) { return from_tensors<T>(layer, b, h, t, masked); });
  } else {
    const Visible visible = visible_keys(layer, b, t);
    const auto positioned = static_cast<std::ptrdiff_t>(dims.past + dims.S);
    std::fill(masked.begin(), masked.begin() + static_cast<std::ptrdiff_t>(visible.first), 1);
    std::fill(masked.begin() + static_cast<std::ptrdiff_t>(visible.last),
              masked.begin() + positioned, 1);
  }
}

std::vector<std::uint8_t> masked_keys(const Layer& layer, std::size_t b, std::size_t h,
                                      std::size_t t) {
  std::vector<std::uint8_t> masked;
  masked_keys(layer, b, h, t, masked);
  return masked;
}

} // namespace mha
