#pragma once
// Positions and sliding windows as config.json describes them, the same in many families.

#include <mha/load/families/family.hpp>

namespace mha::naming {

struct Rotary {
  std::string_view style; ///< "half" or "interleaved", unless config.json has "rope"
  /// The part of a head that is rotated if config.json has none.
  double part = 1;
  /// The keys of config.json that models of this kind read. Without a model_type, the keys of all
  /// families are read.
  std::vector<std::string_view> base_keys = {"rope_theta"};
  std::vector<std::string_view> part_keys = {"partial_rotary_factor"};
  std::string_view dims_key = {};
  double base = 10000;
  /// "full_attention" or "sliding_attention": the object to use, in families whose rope_parameters
  /// have one for each kind of layers. "": the one named in layer_types, if any.
  std::string_view layer_type = {};
  bool scaled = true; ///< whether rope_scaling, which is common to all layers, holds for this one
  bool own_pairs = false; ///< the family sets how many pairs turn, and their scaling
  /// The base is fixed in the model's code, which ignores rope_theta, rope_scaling and
  /// rope_parameters; these are reported as not read.
  bool fixed = false;
};

/// Sets rope and its other settings. W_q or W_qkv must be taken and the heads set before, for the
/// dimensions. Throws Error for a rope_scaling of an unknown kind, unless the user chose one.
void set_rotary(LayerReading& to, const Rotary& rotary);
/// Sets that this layer of the model does not rotate (NoPE).
void set_no_rotary(LayerReading& to);
/// Marks the keys for rotating layers as known, for a layer that does not rotate.
void know_rotary(const LayerReading& to);
/// Marks GGUF's divisors of frequencies as used: the config.json of such a file was made of them.
void use_gguf_divisors(const LayerReading& to);

/// A number of rope_scaling or rope_parameters.
std::optional<double> rope_number(const LayerReading& to, std::string_view key);

/// Whether a family's layer of this number sees only a window; nullptr: every layer does, whatever
/// layer_types has.
using Slides = bool (*)(const Group& group, std::size_t layer);

/// Whether this layer sees only a window, by layer_types or, if config.json has none, by `slides`
/// and the layer's number. Nothing if the layer's number is not known.
std::optional<bool> is_sliding(const Group& group, Slides slides);

/// Sets window_left for sliding_window W: a query sees W keys, its own and W − 1 before.
/// `otherwise` is W if config.json has none; 0 or null mean no window. `by_itself`: the window is
/// used if config.json has no use_sliding_window.
void set_window(LayerReading& to, Slides slides, std::size_t otherwise = 0, bool by_itself = true);

bool every_layer(const Group& group, std::size_t layer);
/// Every second layer, from the first.
bool even_layers(const Group& group, std::size_t layer);
/// The layers from max_window_layers on; from Qwen's 28 if config.json has none.
bool upper_layers(const Group& group, std::size_t layer);
/// The same, with a window whether or not config.json has use_sliding_window.
bool last_layers(const Group& group, std::size_t layer);
/// All layers but the fourth, eighth …, or the sixth, twelfth …, or as config.json counts.
bool all_but_every_fourth(const Group& group, std::size_t layer);
bool all_but_every_sixth(const Group& group, std::size_t layer);

/// rotary_emb.inv_freq of older files is a buffer. Transformers computes the frequencies from the
/// config instead, so a buffer with other numbers is reported.
void check_frequencies(LayerReading& to);

} // namespace mha::naming
