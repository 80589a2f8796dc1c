#include "position.hpp"

#include "plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// Llama 3.1's scaling: low frequencies divided by the factor, high ones kept, a ramp between.
double llama3_scaled(double frequency, const Settings& s) {
  const double wavelength = 2 * M_PI / frequency;
  const double low = s.rope_original_length / s.rope_low_freq_factor;
  const double high = s.rope_original_length / s.rope_high_freq_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low) return frequency / s.rope_factor;
  const double smooth = (s.rope_original_length / wavelength - s.rope_low_freq_factor) /
                        (s.rope_high_freq_factor - s.rope_low_freq_factor);
  return (1 - smooth) * frequency / s.rope_factor + smooth * frequency;
}

/// row += the broadcast values, where they cover keys [first, last).
template <class T> void add(const Broadcast& from, std::size_t b, std::size_t h, std::size_t t,
                            std::size_t first, std::size_t last, T* row) {
  const T* values = from.row<T>(b, h, t);
  const std::size_t begin = std::max(first, from.first_key),
                    end = std::min(last, from.first_key + from.keys);
  for (std::size_t j = begin; j < end; ++j)
    row[j] += values[(j - from.first_key) * from.strides[3]];
}

} // namespace

template <class T>
RotaryTable<T> rotary_table(const Layer& layer, std::size_t rows, std::int64_t first) {
  const Settings& s = layer.settings;
  const std::size_t dims = s.rope_dims == 0 ? layer.dims.d_k : s.rope_dims;
  RotaryTable<T> table;
  table.pairs = dims / 2;
  table.cosines.resize(rows * table.pairs);
  table.sines.resize(rows * table.pairs);
  for (std::size_t i = 0; i < table.pairs; ++i) {
    double frequency =
        std::pow(s.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    if (s.rope_scaling == RopeScaling::linear) frequency /= s.rope_factor;
    if (s.rope_scaling == RopeScaling::llama3) frequency = llama3_scaled(frequency, s);
    for (std::size_t t = 0; t < rows; ++t) {
      const double position = layer.positions.empty()
                                  ? static_cast<double>(first + static_cast<std::int64_t>(t))
                                  : layer.positions.as<double>()[t];
      table.cosines[t * table.pairs + i] = static_cast<T>(std::cos(position * frequency));
      table.sines[t * table.pairs + i] = static_cast<T>(std::sin(position * frequency));
    }
  }
  return table;
}

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

std::size_t relative_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance) {
  const std::size_t exact = buckets / 2;
  if (distance < exact) return distance;
  // In float, as PyTorch computes it: a distance on the border of two buckets falls where it does
  // there.
  const float position =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact))) *
      static_cast<float>(buckets - exact);
  return std::min(exact + static_cast<std::size_t>(position), buckets - 1);
}

template <class T> void add_bias(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                 std::size_t first, std::size_t last, T* row) {
  for (const Broadcast& bias : layer.bias) add(bias, b, h, t, first, last, row);
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

Visible visible_keys(const Layer& layer, std::size_t b, std::size_t t) {
  const Settings& s = layer.settings;
  const auto keys = static_cast<std::ptrdiff_t>(layer.dims.past + layer.dims.S);
  const std::ptrdiff_t query = layer.query_position(b, t);
  std::ptrdiff_t first = 0, last = keys;
  if (!layer.kv_lengths.empty())
    last = std::min(last, static_cast<std::ptrdiff_t>(layer.kv_lengths[b]));
  if (s.causal) last = std::min(last, query + 1);
  if (s.window_right >= 0)
    last = std::min(last, query + static_cast<std::ptrdiff_t>(s.window_right) + 1);
  if (s.window_left >= 0)
    first = std::max(first, query - static_cast<std::ptrdiff_t>(s.window_left));
  first = std::clamp<std::ptrdiff_t>(first, 0, keys);
  last = std::clamp<std::ptrdiff_t>(last, first, keys);
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

Visible visible_tiles(const Layer& layer, std::size_t b, std::size_t first_query,
                      std::size_t queries, std::size_t step) {
  const std::size_t all = layer.dims.S_all;
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

template <class T> void add_masks(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                  std::size_t first, std::size_t last, T* row) {
  constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
  for (const Broadcast& mask : layer.added) add(mask, b, h, t, first, last, row);
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

template RotaryTable<float> rotary_table(const Layer&, std::size_t, std::int64_t);
template RotaryTable<double> rotary_table(const Layer&, std::size_t, std::int64_t);
template void add_bias(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                       std::size_t, float*);
template void add_bias(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                       std::size_t, double*);
template void add_alibi(const Layer&, float, std::size_t, std::size_t, std::size_t, std::size_t,
                        float*);
template void add_alibi(const Layer&, double, std::size_t, std::size_t, std::size_t, std::size_t,
                        double*);
template void add_masks(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                        std::size_t, float*);
template void add_masks(const Layer&, std::size_t, std::size_t, std::size_t, std::size_t,
                        std::size_t, double*);

} // namespace mha
