#pragma once
// Positions and sliding windows as config.json describes them, the same in many families.

#include <mha/load/families/family.hpp>

namespace mha::naming {

struct Rotary {
  std::string_view style; ///< "half" or "interleaved", unless config.json has "rope"
  /// The part of a head that is rotated where config.json is silent.
  double part = 1;
  /// The keys of config.json that models of this kind read. Without a model_type all families' keys
  /// are read.
  std::vector<std::string_view> base_keys = {"rope_theta"};
  std::vector<std::string_view> part_keys = {"partial_rotary_factor"};
  std::string_view dims_key = {};
  double base = 10000;
  /// "full_attention" or "sliding_attention": whose values of rope_parameters, in families whose
  /// rope_parameters are one object for each kind of layers. "": what layer_types call the layer,
  /// where they are.
  std::string_view layer_type = {};
  bool scaled = true; ///< whether rope_scaling, of all layers together, is this layer's
  /// The base is the code's own: it reads no rope_theta, rope_scaling or rope_parameters, which are
  /// told as what is not read.
  bool fixed = false;
};

/// Sets rope and what belongs to it. Needs W_q or W_qkv taken and the heads set, for the
/// dimensions. Throws Error for a rope_scaling of an unknown kind, unless the user chose one.
void set_rotary(LayerReading& to, const Rotary& rotary);
/// This layer of the model does not rotate (NoPE).
void set_no_rotary(LayerReading& to);
/// What the config says of the layers that rotate, of one that does not.
void know_rotary(const LayerReading& to);
/// A number of rope_scaling or rope_parameters.
std::optional<double> rope_number(const LayerReading& to, std::string_view key);

/// Ministral 3 and Mistral Large 3 multiply a query of position p by 1 + β ln(1 + ⌊p / length⌋):
/// by 1 before that length.
struct LongQueries {
  double beta, length;
  std::string key; ///< what the file calls β
};
/// These, where the rope_parameters have a llama_4_scaling_beta.
std::optional<LongQueries> long_queries(const LayerReading& to);

/// Element `index` of a list of config.json: "a,b,c".
std::optional<std::string> element(const std::string& list, std::size_t index);

/// Whether a family's layer of this number sees a window only; nullptr: each does, whatever
/// layer_types says.
using Slides = bool (*)(const Group& group, std::size_t layer);

/// Whether layer_types (or `slides`, by the layer's number, where config.json has none) says that
/// this layer sees a window only; nothing where the layer's number is not known.
std::optional<bool> is_sliding(const Group& group, Slides slides);

/// Sets window_left for sliding_window W: a query sees W keys, its own and W − 1 before.
/// `otherwise`: W where config.json is silent; 0 = no window, as null is. `by_itself`: it is in use
/// where nothing says use_sliding_window.
void set_window(LayerReading& to, Slides slides, std::size_t otherwise = 0, bool by_itself = true);

/// Every layer; every second, from the first; from max_window_layers on, Qwen's 28 where
/// config.json is silent; all but the fourth, eighth …
bool every_layer(const Group& group, std::size_t layer);
bool even_layers(const Group& group, std::size_t layer);
bool upper_layers(const Group& group, std::size_t layer);
bool all_but_every_fourth(const Group& group, std::size_t layer);

} // namespace mha::naming
