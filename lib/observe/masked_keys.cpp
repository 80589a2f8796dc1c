#include <mha/observe/masked_keys.hpp>

#include <mha/forward/bias.hpp>
#include <mha/forward/mask.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <limits>

namespace mha {

namespace {

template <class T> constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

bool has_tensors(const Layer& layer) {
  return !layer.added.empty() || !layer.blocked.empty() || !layer.bias.empty();
}

/// The given stage whose −inf are what may not be attended to.
const Tensor* given_mask(const Layer& layer) {
  for (const Stage stage : {Stage::masked, Stage::shifted})
    if (layer.has_given(stage)) return &layer.given[index_of(stage)];
  return nullptr;
}

template <class T> void from_tensors(const Layer& layer, std::size_t b, std::size_t h,
                                     std::size_t t, std::vector<std::uint8_t>& masked) {
  thread_local std::vector<T> row;
  row.assign(layer.dims.S_all, T(0));
  for (const Broadcast& bias : layer.bias) add_broadcast(bias, b, h, t, 0, row.size(), row.data());
  add_masks(layer, b, h, t, 0, row.size(), row.data());
  for (std::size_t j = 0; j < row.size(); ++j) masked[j] = row[j] == minus_infinity<T>;
}

template <class T> void from_given(const Layer& layer, const Tensor& given, std::size_t row,
                                   std::vector<std::uint8_t>& masked) {
  const T* values = given.as<T>().data() + row * layer.dims.S_all;
  for (std::size_t j = 0; j < masked.size(); ++j) masked[j] = values[j] == minus_infinity<T>;
}

} // namespace

bool has_masks(const Layer& layer) {
  const Settings& s = layer.settings;
  return given_mask(layer) || has_tensors(layer) || s.causal || s.window_left >= 0 ||
         s.window_right >= 0 || !layer.kv_lengths.empty();
}

bool masks_differ_by_head(const Layer& layer) {
  const auto by_head = [](const Broadcast& mask) { return mask.strides[1] != 0; };
  return given_mask(layer) || std::any_of(layer.added.begin(), layer.added.end(), by_head) ||
         std::any_of(layer.blocked.begin(), layer.blocked.end(), by_head) ||
         std::any_of(layer.bias.begin(), layer.bias.end(), by_head);
}

void masked_keys(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                 std::vector<std::uint8_t>& masked) {
  const Dims& dims = layer.dims;
  masked.assign(dims.S_all, 0);
  const bool f64 = layer.dtype == DType::f64;
  if (const Tensor* given = given_mask(layer)) {
    const std::size_t row = (b * dims.H + h) * dims.T + t;
    f64 ? from_given<double>(layer, *given, row, masked)
        : from_given<float>(layer, *given, row, masked);
  } else if (has_tensors(layer)) {
    f64 ? from_tensors<double>(layer, b, h, t, masked)
        : from_tensors<float>(layer, b, h, t, masked);
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
