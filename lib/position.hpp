#pragma once
// Where tokens stand: rotary angles, position bias, and which keys a query may see.

#include "layer.hpp"

namespace mha {

/// Cosines and sines of the rotary embedding for the tokens of one sequence: rows × rope_dims / 2.
template <class T> struct RotaryTable {
  std::vector<T> cosines, sines;
  std::size_t pairs = 0;
};
/// The table for `rows` tokens that start at `first` (positions of the layer, if it has any, win).
/// Frequencies: base^(−2i/dims); linear: divided by the factor; llama3: as in Meta's Llama 3.1
/// code.
template <class T>
RotaryTable<T> rotary_table(const Layer& layer, std::size_t rows, std::int64_t first);

/// The slopes of ALiBi for H heads: 2^(−8(h+1)/H) where H is a power of two. Otherwise (Press et
/// al. 2022) the slopes of the next lower power, then every other one of the next higher; MPT takes
/// the odd ones of the next higher power first, then the even ones.
std::vector<double> alibi_slopes(std::size_t heads, Alibi form);

/// The bucket of a distance in T5's relative bias (Raffel et al. 2020, as in Hugging Face): half of
/// `buckets` are exact, the rest grow logarithmically up to `max_distance`.
std::size_t relative_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance);

/// Adds the explicit and the relative position bias, if there is one, to keys [first, last) of the
/// row of query t.
template <class T> void add_bias(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                 std::size_t first, std::size_t last, T* row);

/// Adds head h's ALiBi to keys [first, last) of the row of query t.
template <class T> void add_alibi(const Layer& layer, T slope, std::size_t b, std::size_t t,
                                  std::size_t first, std::size_t last, T* row);

/// Keys a query may see by causal, window and kv_lengths: [first, last) of past and current keys;
/// extra and zero keys, which follow them, are always seen.
struct Visible {
  std::size_t first = 0, last = 0;
};
Visible visible_keys(const Layer& layer, std::size_t b, std::size_t t);

/// The keys that some queries can see, in whole steps: to the last one where there are extra or
/// zero keys.
Visible visible_tiles(const Layer& layer, std::size_t b, std::size_t first_query,
                      std::size_t queries, std::size_t step);

/// Applies every mask to keys [first, last) of the row of query t: adds the float ones, −inf where
/// it may not attend.
template <class T> void add_masks(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                  std::size_t first, std::size_t last, T* row);

} // namespace mha
