#include <mha/forward/rotary_kinds.hpp>

#include <mha/maths/functions.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mha {

namespace {

/// What a kind works on.
struct RotaryInput {
  const Layer& layer;
  const Settings& s;
  double dims;   ///< n: rotated dimensions
  double length; ///< L
};

using Frequencies = std::vector<double>;

Frequencies powers_of(double base, double dims) {
  Frequencies theta(static_cast<std::size_t>(dims) / 2);
  for (std::size_t i = 0; i < theta.size(); ++i)
    theta[i] = maths::pow(base, -2.0 * static_cast<double>(i) / dims);
  return theta;
}
Frequencies plain(const RotaryInput& of) {
  return powers_of(of.s.rope_base, of.dims);
}

Frequencies linear(const RotaryInput& of) {
  Frequencies theta = plain(of);
  for (double& frequency : theta) frequency /= of.s.rope_factor;
  return theta;
}

Frequencies llama3(const RotaryInput& of) {
  const Settings& s = of.s;
  const double low = s.rope_original_length / s.rope_low_freq_factor;
  const double high = s.rope_original_length / s.rope_high_freq_factor;
  Frequencies theta = plain(of);
  for (double& frequency : theta) {
    const double wavelength = 2 * M_PI / frequency;
    if (wavelength < high) continue;
    if (low == high) { // no band between them (Llama 4)
      if (wavelength > low) frequency /= s.rope_factor;
      continue;
    }
    const double smooth = (s.rope_original_length / wavelength - s.rope_low_freq_factor) /
                          (s.rope_high_freq_factor - s.rope_low_freq_factor);
    frequency = wavelength > low ? frequency / s.rope_factor
                                 : (1 - smooth) * frequency / s.rope_factor + smooth * frequency;
  }
  return theta;
}

Frequencies dynamic(const RotaryInput& of) {
  const double s = of.s.rope_factor, M = of.s.rope_original_length;
  const double longer = s * std::max(of.length, M) / M - (s - 1);
  return powers_of(of.s.rope_base * maths::pow(longer, of.dims / (of.dims - 2)), of.dims);
}

Frequencies yarn(const RotaryInput& of) {
  const Settings& s = of.s;
  // The pair, as a fraction, that turns this often within the original length.
  const auto pair_of = [&](double turns) {
    return of.dims * maths::log(s.rope_original_length / (turns * 2 * std::numbers::pi)) /
           (2 * maths::log(s.rope_base));
  };
  double low = pair_of(s.rope_beta_fast), high = pair_of(s.rope_beta_slow);
  if (s.rope_truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, of.dims - 1);
  if (low == high) high += 0.001;
  Frequencies theta = plain(of);
  for (std::size_t i = 0; i < theta.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    theta[i] = theta[i] / s.rope_factor * ramp + theta[i] * (1 - ramp);
  }
  return theta;
}

Frequencies longrope(const RotaryInput& of) {
  const Tensor& factors = of.length > of.s.rope_original_length ? of.layer.rope_long_factor
                                                                : of.layer.rope_short_factor;
  Frequencies theta = plain(of);
  for (std::size_t i = 0; i < std::min(theta.size(), factors.count()); ++i)
    theta[i] /= factors.as<double>()[i];
  return theta;
}

double one(const Settings&) {
  return 1;
}

double factor_of_yarn(const Settings& s) {
  const auto g = [&](double m) {
    return s.rope_factor <= 1 ? 1 : 0.1 * m * maths::log(s.rope_factor) + 1;
  };
  const bool both = s.rope_mscale != 0 && s.rope_mscale_all_dim != 0;
  return both ? g(s.rope_mscale) / g(s.rope_mscale_all_dim) : g(1);
}

double factor_of_longrope(const Settings& s) {
  if (s.rope_factor <= 1) return 1;
  return std::sqrt(1 + maths::log(s.rope_factor) / maths::log(s.rope_original_length));
}

struct RotaryKind {
  RopeScaling kind;
  Frequencies (*frequencies)(const RotaryInput&);
  double (*attention_factor)(const Settings&);
};
constexpr RotaryKind kinds[]{
    {RopeScaling::none, plain, one},
    {RopeScaling::linear, linear, one},
    {RopeScaling::llama3, llama3, one},
    {RopeScaling::dynamic, dynamic, one},
    {RopeScaling::yarn, yarn, factor_of_yarn},
    {RopeScaling::longrope, longrope, factor_of_longrope},
};

/// The row of positions (time, height, width) that a pair turns by.
std::size_t position_row(const Settings& s, std::size_t pair) {
  const auto& section = s.mrope_section;
  // Height and width have every third pair as far as they go, time the rest.
  if (s.mrope_interleaved) return pair < 3 * section[pair % 3] ? pair % 3 : 0;
  return pair < section[0] ? 0 : pair < section[0] + section[1] ? 1 : 2;
}

} // namespace

double rotary_position(const Layer& layer, std::int64_t first, std::size_t t, std::size_t pair) {
  if (layer.positions.empty()) return static_cast<double>(first + static_cast<std::int64_t>(t));
  const Shape& shape = layer.positions.shape();
  const std::size_t row = shape.size() == 2 ? position_row(layer.settings, pair) : 0;
  return layer.positions.as<double>()[row * shape.back() + t];
}

std::size_t rotary_length(const Layer& layer, std::size_t rows, std::int64_t first) {
  if (layer.settings.rope_length != 0) return layer.settings.rope_length;
  double last = static_cast<double>(first + static_cast<std::int64_t>(rows)) - 1;
  if (!layer.positions.empty()) last = *std::ranges::max_element(layer.positions.as<double>());
  return last < 0 ? 0 : static_cast<std::size_t>(std::min(last, 1e15)) + 1;
}

bool turns_by_length(const Settings& settings) {
  return settings.rope_scaling == RopeScaling::dynamic ||
         settings.rope_scaling == RopeScaling::longrope;
}

RotaryFrequencies rotary_frequencies(const Layer& layer, std::size_t rows, std::int64_t first) {
  const Settings& s = layer.settings;
  const std::size_t room = layer.dims.d_k - std::min(s.rope_first, layer.dims.d_k);
  const std::size_t dims = s.rope_dims == 0 ? room : std::min(s.rope_dims, room);
  const RotaryKind& kind = kinds[static_cast<std::size_t>(s.rope_scaling)];
  const auto length = static_cast<double>(rotary_length(layer, rows, first));
  RotaryFrequencies theta{kind.frequencies({layer, s, static_cast<double>(dims), length}),
                          kind.attention_factor(s)};
  if (s.rope_attention_factor != 0) theta.attention_factor = s.rope_attention_factor;
  return theta;
}

} // namespace mha
