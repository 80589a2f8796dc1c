#include "support/reference_positions.hpp"

#include <cmath>
#include <numbers>

namespace reference {

namespace {

double rope_frequency(const Layer& layer, std::size_t pair, std::size_t dims) {
  const double frequency = 1 / std::pow(layer.rope_base, 2 * real(pair) / real(dims));
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
// and no mask is for the learned and zero keys behind it.
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
  return true;
}

} // namespace

// q: B, heads, rows, d. The pair (a, c) as the complex number a + ic, times
// e^(i·position·frequency).
Array rotated(const Layer& layer, const Array& q) {
  Array y = q;
  const std::size_t d = q.shape[3], dims = layer.rope_dims == 0 ? d : layer.rope_dims;
  for (std::size_t b = 0; b < q.shape[0]; ++b)
    for (std::size_t h = 0; h < q.shape[1]; ++h)
      for (std::size_t t = 0; t < q.shape[2]; ++t)
        for (std::size_t pair = 0; pair < dims / 2; ++pair) {
          const double offset =
              layer.has_rope_offset ? static_cast<double>(layer.rope_offset) : real(layer.P());
          const double position = layer.positions.empty() ? offset + real(t) : layer.positions(t);
          const double angle = position * rope_frequency(layer, pair, dims);
          const bool half = layer.rope == Rope::half;
          const std::size_t first = half ? pair : 2 * pair;
          const std::size_t second = half ? pair + dims / 2 : 2 * pair + 1;
          const double a = q(b, h, t, first), c = q(b, h, t, second);
          y(b, h, t, first) = a * std::cos(angle) - c * std::sin(angle);
          y(b, h, t, second) = c * std::cos(angle) + a * std::sin(angle);
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

Array masked(const Layer& layer, const Array& biased) {
  return each(biased,
              [&](double score, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
                if (!may_attend(layer, b, h, t, j)) return -infinity;
                const Array& mask = layer.mask;
                return covers(layer, mask, j) ? score + mask.broadcast(b, h, t, j) : score;
              });
}

} // namespace reference
