#include <mha/forward/bias.hpp>

#include <mha/maths/functions.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

std::vector<double> alibi_slopes(std::size_t heads, Alibi form) {
  const auto powers = [](std::size_t n) {
    std::vector<double> slopes(n);
    for (std::size_t h = 0; h < n; ++h)
      slopes[h] = maths::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(n));
    return slopes;
  };
  std::size_t lower = 1;
  while (lower * 2 <= heads) lower *= 2;
  if (lower == heads) return powers(heads);
  const std::vector<double> higher = powers(2 * lower);
  std::vector<double> slopes;
  if (form == Alibi::mpt) {
    for (std::size_t h = 1; h < higher.size(); h += 2) slopes.push_back(higher[h]);
    for (std::size_t h = 0; h < higher.size(); h += 2) slopes.push_back(higher[h]);
  } else {
    slopes = powers(lower);
    for (std::size_t h = 0; h < higher.size(); h += 2) slopes.push_back(higher[h]);
  }
  slopes.resize(heads);
  return slopes;
}

template <class T> void add_broadcast(const Broadcast& from, const RowPlace& at, Keys<T> keys) {
  const T* values = from.row<T>(at.batch, at.head, at.query);
  const Keys<T> covered = keys.within(from.first_key, from.first_key + from.keys);
  for (std::size_t j = covered.first; j < covered.last; ++j)
    covered.row[j] += values[(j - from.first_key) * from.strides[3]];
}

namespace {

/// Extra and zero keys have no position.
template <class T> Keys<T> with_position(const Layer& layer, Keys<T> keys) {
  return keys.within(0, layer.dims.past + layer.dims.S);
}

/// Σ a_i b_i in eight sums, which a processor takes at once; the order depends on n alone.
template <class T> T dot(const T* a, const T* b, std::size_t n) {
  T sums[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

} // namespace

template <class T> void add_bias(const Layer& layer, const RowPlace& at, Keys<T> keys) {
  for (const Broadcast& bias : layer.bias) add_broadcast(bias, at, keys);
  if (layer.relative_bias.empty()) return;
  keys = with_position(layer, keys);
  const std::size_t half =
      layer.settings.relative_bidirectional ? layer.relative_bias.shape()[0] / 2 : 0;
  const std::ptrdiff_t query = layer.query_position(at.batch, at.query);
  const T* values = layer.relative_bias.as<T>().data() + at.head;
  for (std::size_t j = keys.first; j < keys.last; ++j) {
    const std::ptrdiff_t ahead = static_cast<std::ptrdiff_t>(j) - query;
    // One direction only: every later key is at distance 0.
    const auto distance =
        static_cast<std::size_t>(half > 0 ? std::abs(ahead) : std::max<std::ptrdiff_t>(-ahead, 0));
    const std::size_t bucket =
        layer.relative_buckets[std::min(distance, layer.relative_buckets.size() - 1)];
    keys.row[j] += values[(bucket + (ahead > 0 ? half : 0)) * layer.dims.H];
  }
}

template <class T> void add_alibi(const Layer& layer, T slope, const RowPlace& at, Keys<T> keys) {
  const auto all = static_cast<std::ptrdiff_t>(keys_of(layer, at.batch));
  const std::ptrdiff_t query = layer.query_position(at.batch, at.query);
  keys = with_position(layer, keys);
  for (std::size_t j = keys.first; j < keys.last; ++j) {
    const auto key = static_cast<std::ptrdiff_t>(j);
    switch (layer.settings.alibi) {
    case Alibi::none:
      break;
    case Alibi::paper:
      keys.row[j] += slope * static_cast<T>(key - query);
      break;
    // BLOOM adds slope · key: the same softmax, other numbers.
    case Alibi::bloom:
      keys.row[j] += slope * static_cast<T>(key);
      break;
    // Falcon scales the bias together with the scores: (q kᵀ + slope · key) · scale.
    case Alibi::falcon:
      keys.row[j] += slope * static_cast<T>(key) * static_cast<T>(layer.scale());
      break;
    case Alibi::mpt:
      keys.row[j] += slope * static_cast<T>(key - all + 1);
      break;
    }
  }
}

template <class T> void add_relative_key(const Layer& layer, const RowPlace& at, const T* q,
                                         Matrix<const T> k, Keys<T> keys) {
  const Tensor& table = layer.relative_key;
  const std::size_t d_k = layer.dims.d_k;
  const auto rows = static_cast<std::ptrdiff_t>(table.shape()[0]);
  const auto scale = static_cast<T>(layer.scale());
  // The row of distance 0 is M − 1.
  const std::ptrdiff_t middle = layer.query_position(at.batch, at.query) + rows / 2;
  keys = with_position(layer, keys);
  for (std::size_t j = keys.first; j < keys.last; ++j) {
    const std::ptrdiff_t number =
        std::clamp<std::ptrdiff_t>(middle - static_cast<std::ptrdiff_t>(j), 0, rows - 1);
    const T* r = table.as<T>().data() + static_cast<std::size_t>(number) * d_k;
    T sum = dot(q, r, d_k);
    if (k.data) sum += dot(k.row(j), r, d_k);
    keys.row[j] += scale * sum;
  }
}

template void add_broadcast(const Broadcast&, const RowPlace&, Keys<float>);
template void add_broadcast(const Broadcast&, const RowPlace&, Keys<double>);
template void add_bias(const Layer&, const RowPlace&, Keys<float>);
template void add_bias(const Layer&, const RowPlace&, Keys<double>);
template void add_alibi(const Layer&, float, const RowPlace&, Keys<float>);
template void add_alibi(const Layer&, double, const RowPlace&, Keys<double>);
template void add_relative_key(const Layer&, const RowPlace&, const float*, Matrix<const float>,
                               Keys<float>);
template void add_relative_key(const Layer&, const RowPlace&, const double*, Matrix<const double>,
                               Keys<double>);

} // namespace mha
