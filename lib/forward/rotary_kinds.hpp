#pragma once
// The kinds of frequency scaling that rotary embeddings have been given for longer sequences.

#include <mha/layer/layer.hpp>

#include <vector>

namespace mha {

struct RotaryFrequencies {
  std::vector<double>
      frequencies; ///< θ of each pair; plain: θ_i = base^(−2i/n), n rotated dimensions
  double attention_factor = 1; ///< multiplies cosines and sines, so scores by its square
};

/// The frequencies of a layer whose `rows` tokens start at position `first`. With s = rope_factor,
/// M = rope_original_length, L = the sequence's length (rope_length, or the last position + 1):
/// linear    θ / s (Chen et al. 2023).
/// llama3    wavelengths 2π/θ above M / low_freq_factor: θ / s; below M / high_freq_factor: θ;
///           between, a ramp (Meta's Llama 3.1 code).
/// dynamic   base · (s max(L, M) / M − (s − 1))^(n / (n − 2)) for base ("NTK-aware", bloc97).
/// yarn      θ/s · r + θ · (1 − r), r_i = (i − low) / (high − low) within 0 … 1, low and high the
///           pairs that turn beta_fast and beta_slow times within M (Peng et al. 2023); attention
///           factor g(1), or g(mscale) / g(mscale_all_dim), g(m) = 0.1 m ln s + 1.
/// longrope  θ_i / f_i, f = rope_long_factor where L > M, else rope_short_factor; attention factor
///           √(1 + ln s / ln M) (Ding et al. 2024).
/// rope_attention_factor replaces the attention factor of each.
RotaryFrequencies rotary_frequencies(const Layer& layer, std::size_t rows, std::int64_t first);

/// L: rope_length, or the last position + 1; 0 where every position is negative.
std::size_t rotary_length(const Layer& layer, std::size_t rows, std::int64_t first);

/// The position by which a pair of token t turns: with mrope_section, of the row of positions that
/// the pair belongs to (time, height or width).
double rotary_position(const Layer& layer, std::int64_t first, std::size_t t, std::size_t pair);

/// Whether the frequencies follow from how long the sequence is.
bool turns_by_length(const Settings& settings);

} // namespace mha
