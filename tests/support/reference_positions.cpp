#include "support/reference_positions.hpp"

#include <cmath>
#include <numbers>

namespace reference {

namespace {

// The position of a token's pair. mrope: time, height and width have their pairs one after the
// other, or t h w t h w … while height and width have some left.
double position_of(const Layer& layer, std::size_t t, std::size_t pair) {
  const double first =
      layer.has_rope_offset ? static_cast<double>(layer.rope_offset) : real(layer.P());
  if (layer.positions.empty()) return first + real(t);
  if (layer.positions.shape.size() == 1) return layer.positions(t);
  const std::size_t *section = layer.mrope, turn = pair % 3;
  std::size_t row = pair < section[0] ? 0 : pair < section[0] + section[1] ? 1 : 2;
  if (layer.mrope_interleaved) row = turn != 0 && pair / 3 < section[turn] ? turn : 0;
  return layer.positions(row, t);
}

// The last position + 1.
double length_of(const Layer& layer) {
  double last = -infinity;
  for (double p : layer.positions.values) last = p > last ? p : last;
  const std::size_t tokens = layer.T() > layer.S() ? layer.T() : layer.S();
  if (layer.positions.empty()) last = position_of(layer, tokens - 1, 0);
  return last + 1;
}

// What cosines and sines are multiplied by.
double attention_factor(const Layer& layer) {
  if (layer.attention_factor != 0) return layer.attention_factor;
  const double s = layer.rope_factor;
  if (layer.rope_scaling == Scaling::yarn) {
    if (layer.mscale == 0 || layer.mscale_all_dim == 0) return 1 + std::log(s) / 10;
    return (1 + layer.mscale * std::log(s) / 10) / (1 + layer.mscale_all_dim * std::log(s) / 10);
  }
  if (layer.rope_scaling == Scaling::longrope)
    return std::sqrt(1 + std::log(s) / std::log(layer.rope_length));
  return 1;
}

// How often a pair, any real number, turns within the original length decides: above beta_fast it
// stays, below beta_slow it is stretched.
double yarn_share(const Layer& layer, std::size_t pair, std::size_t dims) {
  const auto pair_that_turns = [&](double turns) {
    // turns = M θ / 2π and θ = base^(−2 pair / n), solved for the pair.
    const double theta = turns * 2 * std::numbers::pi / layer.rope_length;
    return -std::log(theta) / std::log(layer.rope_base) * real(dims) / 2;
  };
  double low = pair_that_turns(layer.beta_fast), high = pair_that_turns(layer.beta_slow);
  if (layer.truncate) low = std::floor(low), high = std::ceil(high);
  low = low < 0 ? 0 : low, high = high > real(dims) - 1 ? real(dims) - 1 : high;
  if (low == high) high += 0.001;
  const double share = (real(pair) - low) / (high - low);
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

double rope_frequency(const Layer& layer, std::size_t pair, std::size_t dims) {
  const double frequency = 1 / std::pow(layer.rope_base, 2 * real(pair) / real(dims));
  const double length = length_of(layer), M = layer.rope_length, s = layer.rope_factor;
  if (layer.rope_scaling == Scaling::dynamic) {
    const double longest = length > M ? length : M;
    const double stretch = std::pow(s * longest / M - (s - 1), real(dims) / (real(dims) - 2));
    return 1 / std::pow(layer.rope_base * stretch, 2 * real(pair) / real(dims));
  }
  if (layer.rope_scaling == Scaling::yarn) {
    const double share = yarn_share(layer, pair, dims);
    return frequency * (1 - share) + frequency / s * share;
  }
  if (layer.rope_scaling == Scaling::longrope)
    return frequency / (length > M ? layer.long_factor : layer.short_factor)(pair);
  if (layer.rope_scaling == Scaling::linear) return frequency / layer.rope_factor;
  if (layer.rope_scaling == Scaling::none) return frequency;
  // Llama 3.1: how often the pair turns within the original context decides.
  const double turns = layer.rope_length * frequency / (2 * std::numbers::pi);
  if (turns > layer.rope_high) return frequency;
  if (turns < layer.rope_low) return frequency / layer.rope_factor;
  const double smooth = (turns - layer.rope_low) / (layer.rope_high - layer.rope_low);
  return (1 - smooth) * frequency / layer.rope_factor + smooth * frequency;
}

// What the diagonal is shifted by. top_left: the first query meets the first key; bottom_right: the
// last query meets the last valid key; automatic, as ONNX: that where the valid keys are counted,
// else the first query meets the first key after the past ones.
double diagonal_offset(const Layer& layer, std::size_t b) {
  if (layer.align == Align::top_left) return 0;
  if (layer.align == Align::automatic && layer.kv_lengths.empty()) return real(layer.P());
  const std::size_t valid = layer.kv_lengths.empty() ? layer.P() + layer.S() : layer.kv_lengths[b];
  return real(valid) - real(layer.T());
}

// A mask or bias with one key is meant for all of them; where there is but one, it is that one's,
// and no mask is for the learned and zero keys after it.
bool covers(const Layer& layer, const Array& mask, std::size_t j) {
  if (mask.empty()) return false;
  const bool for_all = mask.shape[3] == 1 && layer.P() + layer.S() != 1;
  return for_all || j < mask.shape[3];
}

bool may_attend(const Layer& layer, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
  const Array& blocked = layer.blocked;
  if (covers(layer, blocked, j) && blocked.broadcast(b, h, t, j) != 0) return false;
  if (!layer.padding.empty()) {
    // As long as the current keys: it begins after the past ones.
    const std::size_t first = layer.padding.shape[1] == layer.S_all() ? 0 : layer.P();
    if (j >= first && j < first + layer.padding.shape[1] && layer.padding(b, j - first) != 0)
      return false;
  }
  if (j >= layer.P() + layer.S()) return true;
  // A mask that is too short: the keys that it leaves out are not attended to, as in ONNX.
  if (!layer.mask.empty() && layer.mask.shape[3] > 1 && j >= layer.mask.shape[3]) return false;
  if (!layer.kv_lengths.empty() && j >= layer.kv_lengths[b]) return false;
  const double key = real(j), query = real(t) + diagonal_offset(layer, b);
  if (layer.causal && key > query) return false;
  if (layer.window_left >= 0 && key < query - static_cast<double>(layer.window_left)) return false;
  if (layer.window_right >= 0 && key > query + static_cast<double>(layer.window_right))
    return false;
  const double chunk = real(layer.window_chunk);
  return chunk == 0 || query < 0 || std::floor(key / chunk) == std::floor(query / chunk);
}

} // namespace

// q: B, heads, rows, d. The pair (a, c) as the complex number a + ic, times
// e^(i·position·frequency).
Array rotated(const Layer& layer, const Array& q) {
  Array y = q;
  const std::size_t d = q.shape[3], begin = layer.rope_first;
  const std::size_t dims = layer.rope_dims == 0 ? d - begin : layer.rope_dims;
  const double factor = attention_factor(layer);
  for (std::size_t b = 0; b < q.shape[0]; ++b)
    for (std::size_t h = 0; h < q.shape[1]; ++h)
      for (std::size_t t = 0; t < q.shape[2]; ++t)
        for (std::size_t pair = 0; pair < dims / 2; ++pair) {
          const double angle = position_of(layer, t, pair) * rope_frequency(layer, pair, dims);
          const bool half = layer.rope == Rope::half;
          const std::size_t first = begin + (half ? pair : 2 * pair);
          const std::size_t second = begin + (half ? pair + dims / 2 : 2 * pair + 1);
          const double a = q(b, h, t, first), c = q(b, h, t, second);
          y(b, h, t, first) = factor * (a * std::cos(angle) - c * std::sin(angle));
          y(b, h, t, second) = factor * (c * std::cos(angle) + a * std::sin(angle));
        }
  return y;
}

std::vector<double> alibi_slopes(std::size_t heads, Alibi form) {
  // Press et al.: a geometric sequence that starts at and has the ratio 2^(−8/n), n a power of two.
  const double lower = std::exp2(std::floor(std::log2(real(heads))));
  const double upper = lower == real(heads) ? lower : 2 * lower;
  std::vector<double> slopes;
  for (std::size_t h = 0; h < heads; ++h) {
    const double n = real(h + 1);
    if (form == Alibi::mpt && upper != lower) {
      // The even powers of the longer sequence, then its odd ones.
      const double power = n <= lower ? 2 * n : 2 * (n - lower) - 1;
      slopes.push_back(std::exp2(-8 / upper * power));
    } else if (n <= lower) {
      slopes.push_back(std::exp2(-8 / lower * n));
    } else {
      slopes.push_back(std::exp2(-8 / upper * (2 * (n - lower) - 1)));
    }
  }
  return slopes;
}

namespace {

// Raffel et al.: small distances have buckets of their own, larger ones share them logarithmically.
// Float where T5's code has float, which decides distances on the border of two buckets.
std::size_t bucket_of(const Layer& layer, double key_minus_query) {
  std::size_t buckets = layer.relative_bias.shape[0], first = 0;
  double distance = -key_minus_query;
  if (layer.relative_bidirectional) {
    buckets /= 2;
    if (key_minus_query > 0) first = buckets;
    distance = std::fabs(distance);
  } else if (distance < 0) {
    distance = 0;
  }
  const std::size_t exact = buckets / 2;
  if (distance < real(exact)) return first + static_cast<std::size_t>(distance);
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(real(layer.relative_max_distance) / real(exact)));
  const auto further = static_cast<std::size_t>(ratio * static_cast<float>(buckets - exact));
  return first + (exact + further < buckets ? exact + further : buckets - 1);
}

} // namespace

Array biased(const Layer& layer, const Array& capped) {
  const std::vector<double> slopes = alibi_slopes(layer.H, layer.alibi);
  const std::size_t positioned = layer.P() + layer.S();
  return each(capped,
              [&](double score, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
                if (covers(layer, layer.bias, j)) score += layer.bias.broadcast(b, h, t, j);
                if (j >= positioned) return score;
                const double key = real(j), query = real(t) + diagonal_offset(layer, b);
                if (!layer.relative_bias.empty())
                  score += layer.relative_bias(bucket_of(layer, key - query), h);
                switch (layer.alibi) {
                case Alibi::none:
                  return score;
                case Alibi::paper:
                  return score + slopes[h] * (key - query);
                case Alibi::bloom:
                  return score + slopes[h] * key;
                case Alibi::falcon:
                  return score + slopes[h] * key * layer.scale;
                case Alibi::mpt:
                  return score + slopes[h] * (key - (real(positioned) - 1));
                }
                return score;
              });
}

// Shaw et al.; BERT's relative_key and relative_key_query. Distances beyond the table take its
// ends.
Array with_relative_key(const Layer& layer, const Array& q, const Array& k, Array biased) {
  if (layer.relative_key.empty()) return biased;
  const double farthest = real(layer.relative_key.shape[0] / 2);
  return each(biased, [&](double score, std::size_t b, std::size_t h, std::size_t t,
                          std::size_t j) {
    if (j >= layer.P() + layer.S()) return score;
    double distance = real(t) + diagonal_offset(layer, b) - real(j);
    distance = distance > farthest ? farthest : distance < -farthest ? -farthest : distance;
    const auto at = static_cast<std::size_t>(distance + farthest);
    const std::size_t group = q.shape[1] / k.shape[1];
    for (std::size_t i = 0; i < q.shape[3]; ++i) {
      const double with = q(b, h, t, i) + (layer.relative_key_query ? k(b, h / group, j, i) : 0);
      score += layer.scale * with * layer.relative_key(at, i);
    }
    return score;
  });
}

Array masked(const Layer& layer, const Array& biased) {
  return each(biased,
              [&](double score, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
                if (!may_attend(layer, b, h, t, j)) return -infinity;
                const Array& mask = layer.mask;
                return covers(layer, mask, j) ? score + mask.broadcast(b, h, t, j) : score;
              });
}

} // namespace reference
