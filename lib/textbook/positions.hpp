#pragma once
// The steps that depend on positions: rotary embedding and position biases.

#include <mha/textbook/arrays.hpp>

#include <numbers>
#include <vector>

namespace mha::textbook {

/// The shift of the causal diagonal: query t has the position t + offset among the keys.
inline double offset(const Layer& l, std::size_t batch) {
  if (l.settings.causal_align == CausalAlign::top_left) return 0;
  if (l.settings.causal_align == CausalAlign::automatic && l.kv_lengths.empty())
    return real(l.dims.past);
  const std::size_t valid = l.kv_lengths.empty() ? l.dims.past + l.dims.S : l.kv_lengths[batch];
  return real(valid) - real(l.dims.T);
}

/// B, 1, T, 1.
inline Array query_positions(const Layer& l) {
  Array positions = xt::zeros<double>({l.dims.B, std::size_t{1}, l.dims.T, std::size_t{1}});
  for (std::size_t b = 0; b < l.dims.B; ++b)
    xt::view(positions, b, 0, all(), 0) = numbers_from(offset(l, b), l.dims.T);
  return positions;
}

/// The number that `scaled` multiplies by.
inline double scale(const Layer& l) {
  switch (l.settings.scale) {
  case ScaleKind::d_k:
    return 1 / std::sqrt(real(l.dims.d_k));
  case ScaleKind::d_model:
    return 1 / std::sqrt(real(l.dims.d_model));
  case ScaleKind::number:
    return l.settings.scale_value;
  default:
    return 1;
  }
}

// --- rotary embedding (Su et al. 2021), and its frequencies for longer contexts

/// The position of each row, or of each row and pair: rows, 1 or pairs.
inline Array rotary_positions(const Layer& l, std::size_t rows, std::size_t pairs) {
  if (l.positions.empty())
    return shaped(numbers_from(static_cast<double>(l.first_position()), rows), {rows, 1});
  const Array given = array(l.positions);
  if (given.dimension() == 1) return shaped(given, {rows, 1});
  // Time, height and width: each pair turns by one of the three.
  Array positions = xt::zeros<double>({rows, pairs});
  const auto& section = l.settings.mrope_section;
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t turn = i % 3;
    const std::size_t of = l.settings.mrope_interleaved  ? (i / 3 < section[turn] ? turn : 0)
                           : i < section[0]              ? 0
                           : i < section[0] + section[1] ? 1
                                                         : 2;
    xt::view(positions, all(), i) = xt::view(given, of);
  }
  return positions;
}

/// What multiplies the scores of each query beside the scale: 1 + β ln(1 + ⌊(p + offset) /
/// length⌋), T × 1.
inline Array temperatures(const Layer& l) {
  const Settings& s = l.settings;
  const Array p = l.positions.rank() == 2 // of three rows, that of time
                      ? shaped(Array(xt::view(array(l.positions), 0)), {l.dims.T, 1})
                      : rotary_positions(l, l.dims.T, 1);
  const Array steps = xt::floor((p + real(s.temperature_offset)) / s.temperature_length);
  return 1 + s.temperature * xt::log(1 + xt::maximum(steps, 0.));
}

/// θ_i = base^(−2i / n), as the kind of scaling changes them. `length` is the last position + 1.
inline Array frequencies(const Layer& l, double length, std::size_t pairs) {
  const Settings& s = l.settings;
  const double n = 2 * real(pairs), base = s.rope_base, factor = s.rope_factor,
               trained = s.rope_original_length;
  const Array i = numbers_from(0, pairs), theta = xt::pow(base, -2 * i / n);
  const Array turns = trained * theta / (2 * std::numbers::pi); // within the trained length
  switch (s.rope_scaling) {
  case RopeScaling::none:
    return theta;
  case RopeScaling::linear:
    return theta / factor;
  case RopeScaling::llama3: {
    const double low = s.rope_low_freq_factor, high = s.rope_high_freq_factor;
    const Array kept = xt::clip((turns - low) / (high - low), 0., 1.);
    return kept * theta + (1 - kept) * theta / factor;
  }
  case RopeScaling::dynamic: {
    const double stretch = factor * std::max(length, trained) / trained - (factor - 1);
    return xt::pow(base * std::pow(stretch, n / (n - 2)), -2 * i / n);
  }
  case RopeScaling::yarn: {
    const auto pair_with = [&](double of) { // so many turns within the trained length
      return n / 2 * std::log(trained / (2 * std::numbers::pi * of)) / std::log(base);
    };
    double low = pair_with(s.rope_beta_fast), high = pair_with(s.rope_beta_slow);
    if (s.rope_truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.), high = std::min(high, n - 1);
    if (low == high) high += 0.001;
    const Array stretched = xt::clip((i - low) / (high - low), 0., 1.);
    return stretched * theta / factor + (1 - stretched) * theta;
  }
  case RopeScaling::longrope:
    return theta / array(length > trained ? l.rope_long_factor : l.rope_short_factor);
  }
  fail("the textbook has no such rope_scaling");
}

/// The factor of cosines and sines.
inline double rotary_factor(const Settings& s) {
  const double longer = std::log(std::max(s.rope_factor, 1.));
  if (s.rope_attention_factor != 0) return s.rope_attention_factor;
  if (s.rope_scaling == RopeScaling::longrope)
    return std::sqrt(1 + longer / std::log(s.rope_original_length));
  if (s.rope_scaling != RopeScaling::yarn) return 1;
  if (s.rope_mscale == 0 || s.rope_mscale_all_dim == 0) return 1 + 0.1 * longer;
  return (1 + 0.1 * s.rope_mscale * longer) / (1 + 0.1 * s.rope_mscale_all_dim * longer);
}

/// Each pair (a, b) of a head turned by its angle: (a cos − b sin, b cos + a sin).
inline Array rotated(const Layer& l, const Array& x) {
  const Settings& s = l.settings;
  if (s.rope == Rope::none) return x;
  const std::size_t begin = s.rope_first, rows = x.shape(2);
  const std::size_t pairs = (s.rope_dims == 0 ? x.shape(3) - begin : s.rope_dims) / 2;
  const Array positions = rotary_positions(l, rows, pairs);
  const Array all_positions = l.positions.empty()
                                  ? rotary_positions(l, std::max(l.dims.T, l.dims.S), pairs)
                                  : array(l.positions);
  const double length = s.rope_length != 0 ? real(s.rope_length) : 1 + xt::amax(all_positions)();
  const Array angle = positions * frequencies(l, length, pairs);
  const Array cos = rotary_factor(s) * xt::cos(angle), sin = rotary_factor(s) * xt::sin(angle);

  const bool half = s.rope == Rope::half;
  const std::size_t step = half ? 1 : 2, apart = half ? pairs : 1, end = begin + 2 * pairs - apart;
  const auto a = xt::view(x, all(), all(), all(), xt::range(begin, end, step));
  const auto b = xt::view(x, all(), all(), all(), xt::range(begin + apart, end + apart, step));
  Array y = x;
  xt::view(y, all(), all(), all(), xt::range(begin, end, step)) = a * cos - b * sin;
  xt::view(y, all(), all(), all(), xt::range(begin + apart, end + apart, step)) = b * cos + a * sin;
  return y;
}

// --- biases of positions: B, H, T and the keys that have one, past and current

/// Key less query: B, 1, T, P + S.
inline Array distances(const Layer& l) {
  return numbers_from(0, l.dims.past + l.dims.S) - query_positions(l);
}

/// The slope of each head (Press et al. 2022): powers of 2^(−8/n) for a power of two n, and for
/// more heads every second one of the next longer sequence.
inline Array alibi_slopes(std::size_t heads) {
  const double n = std::exp2(std::floor(std::log2(real(heads))));
  const Array nth = numbers_from(1, heads);
  return xt::exp2(-8 / n * xt::where(nth <= n, nth, nth - n - 0.5));
}

inline Array alibi(const Layer& l) {
  const Array key = numbers_from(0, l.dims.past + l.dims.S);
  const Array slope = shaped(alibi_slopes(l.dims.H), {l.dims.H, 1, 1});
  switch (l.settings.alibi) {
  case Alibi::paper:
    return slope * distances(l);
  case Alibi::bloom:
    return slope * key;
  case Alibi::falcon:
    return scale(l) * slope * key;
  case Alibi::mpt:
    return slope * (key - (real(key.size()) - 1));
  default:
    return xt::zeros_like(key);
  }
}

/// T5's bias (Raffel et al. 2020): near distances have a bucket each, farther ones share them
/// logarithmically. Float32 as in T5, which decides distances on the border of two buckets.
inline Array bucket_bias(const Layer& l) {
  const bool both = l.settings.relative_bidirectional;
  const std::size_t rows = l.relative_bias.shape()[0], buckets = both ? rows / 2 : rows;
  const Array ahead = distances(l);
  const Array distance = both ? Array(xt::abs(ahead)) : Array(xt::maximum(-ahead, 0.));
  const double exact = real(buckets / 2);
  const xt::xarray<float> ratio =
      xt::log(xt::cast<float>(xt::maximum(distance, exact)) / static_cast<float>(exact)) /
      static_cast<float>(std::log(real(l.settings.relative_max_distance) / exact));
  const Array farther = exact + xt::floor(ratio * static_cast<float>(real(buckets) - exact));
  const Array bucket =
      xt::where(distance < exact, distance, xt::minimum(farther, real(buckets) - 1)) +
      xt::where(both && ahead > 0, real(buckets), 0.);
  const Array values = array(l.relative_bias);
  Array bias = xt::zeros<double>({l.dims.B, l.dims.H, l.dims.T, ahead.shape(3)});
  for (std::size_t row = 0; row < rows; ++row) // the row of each bucket, for every head
    bias += xt::equal(bucket, real(row)) * shaped(xt::view(values, row), {l.dims.H, 1, 1});
  return bias;
}

/// scale · q r, and k r, of the vector r of each distance, those beyond the table taking its ends
/// (Shaw et al. 2018).
inline Array relative_key(const Layer& l, const Array& q, const Array& k) {
  const Array values = array(l.relative_key), ahead = distances(l);
  const double farthest = real(values.shape(0) / 2);
  Array bias = xt::zeros<double>({l.dims.B, l.dims.H, l.dims.T, ahead.shape(3)});
  for (double distance = -farthest; distance <= farthest; ++distance) { // query − key
    const Array r = xt::view(values, static_cast<std::size_t>(distance + farthest));
    const Array qr = xt::sum(q * r, {3}), kr = xt::sum(k * r, {3});
    const Array has_it = xt::equal(xt::clip(-ahead, -farthest, farthest), distance);
    bias += has_it * xt::expand_dims(qr, 3);
    if (l.settings.relative_key_query)
      bias += has_it * xt::expand_dims(xt::view(kr, all(), all(), xt::range(0, ahead.shape(3))), 2);
  }
  return scale(l) * bias;
}

} // namespace mha::textbook
