#include <mha/forward/bias.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

std::vector<double> alibi_slopes(std::size_t heads, Alibi form) {
  const auto powers = [](std::size_t n) {
    std::vector<double> slopes(n);
    for (std::size_t h = 0; h < n; ++h)
      slopes[h] = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(n));
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

template <class T> void add_broadcast(const Broadcast& from, std::size_t b, std::size_t h,
                                      std::size_t t, std::size_t first, std::size_t last, T* row) {
  const T* values = from.row<T>(b, h, t);
  const std::size_t begin = std::max(first, from.first_key),
                    end = std::min(last, from.first_key + from.keys);
  for (std::size_t j = begin; j < end; ++j)
    row[j] += values[(j - from.first_key) * from.strides[3]];
}

template <class T> void add_bias(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                 std::size_t first, std::size_t last, T* row) {
  for (const Broadcast& bias : layer.bias) add_broadcast(bias, b, h, t, first, last, row);
  if (layer.relative_bias.empty()) return;
  const std::size_t end =
      std::min(last, layer.dims.past + layer.dims.S); // extra keys have no position
  const std::size_t half =
      layer.settings.relative_bidirectional ? layer.relative_bias.shape()[0] / 2 : 0;
  const std::ptrdiff_t query = layer.query_position(b, t);
  const T* values = layer.relative_bias.as<T>().data() + h;
  for (std::size_t j = first; j < end; ++j) {
    const std::ptrdiff_t ahead = static_cast<std::ptrdiff_t>(j) - query;
    // One direction only: every later key is at distance 0.
    const auto distance =
        static_cast<std::size_t>(half > 0 ? std::abs(ahead) : std::max<std::ptrdiff_t>(-ahead, 0));
    const std::size_t bucket =
        layer.relative_buckets[std::min(distance, layer.relative_buckets.size() - 1)];
    row[j] += values[(bucket + (ahead > 0 ? half : 0)) * layer.dims.H];
  }
}

template <class T> void add_alibi(const Layer& layer, T slope, std::size_t b, std::size_t t,
                                  std::size_t first, std::size_t last, T* row) {
  const auto keys = static_cast<std::ptrdiff_t>(layer.dims.past + layer.dims.S);
  const std::size_t end =
      std::min(last, layer.dims.past + layer.dims.S); // extra keys have no position
  const std::ptrdiff_t query = layer.query_position(b, t);
  for (std::size_t j = first; j < end; ++j) {
    const auto key = static_cast<std::ptrdiff_t>(j);
    switch (layer.settings.alibi) {
    case Alibi::none:
      break;
    case Alibi::paper:
      row[j] += slope * static_cast<T>(key - query);
      break;
    // BLOOM adds slope · key: the same softmax, other numbers.
    case Alibi::bloom:
      row[j] += slope * static_cast<T>(key);
      break;
    // Falcon scales the bias together with the scores: (q kᵀ + slope · key) · scale.
    case Alibi::falcon:
      row[j] += slope * static_cast<T>(key) * static_cast<T>(layer.scale());
      break;
    case Alibi::mpt:
      row[j] += slope * static_cast<T>(key - keys + 1);
      break;
    }
  }
}

namespace {

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

template <class T> void add_relative_key(const Layer& layer, std::size_t b, std::size_t t,
                                         const T* query, Matrix<const T> keys, std::size_t first,
                                         std::size_t last, T* row) {
  const std::size_t end =
      std::min(last, layer.dims.past + layer.dims.S); // extra keys have no position
  const auto rows = static_cast<std::ptrdiff_t>(layer.relative_key.shape()[0]);
  const std::size_t d_k = layer.dims.d_k;
  const auto scale = static_cast<T>(layer.scale());
  const std::ptrdiff_t middle =
      layer.query_position(b, t) + rows / 2; // the row of distance 0 is M − 1
  for (std::size_t j = first; j < end; ++j) {
    const std::ptrdiff_t at =
        std::clamp<std::ptrdiff_t>(middle - static_cast<std::ptrdiff_t>(j), 0, rows - 1);
    const T* r = layer.relative_key.as<T>().data() + static_cast<std::size_t>(at) * d_k;
    T sum = dot(query, r, d_k);
    if (keys.data) sum += dot(keys.row(j), r, d_k);
    row[j] += scale * sum;
  }
}

template void add_relative_key(const Layer&, std::size_t, std::size_t, const float*,
                               Matrix<const float>, std::size_t, std::size_t, float*);
template void add_relative_key(const Layer&, std::size_t, std::size_t, const double*,
                               Matrix<const double>, std::size_t, std::size_t, double*);
template void add_broadcast(const Broadcast&, std::size_t, std::size_t, std::size_t, std::size_t,
                            std::size_t, float*);
template void add_broadcast(const Broadcast&, std::size_t, std::size_t, std::size_t, std::size_t,
                            std::size_t, double*);
template void add_bias(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                       std::size_t, float*);
template void add_bias(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                       std::size_t, double*);
template void add_alibi(const Layer&, float, std::size_t, std::size_t, std::size_t, std::size_t,
                        float*);
template void add_alibi(const Layer&, double, std::size_t, std::size_t, std::size_t, std::size_t,
                        double*);

} // namespace mha
