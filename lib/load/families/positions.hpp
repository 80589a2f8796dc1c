#pragma once
// Rotary embedding and windows as config.json describes them, the same in many families.

#include <mha/load/families/family.hpp>

namespace mha::naming {

struct Rotary {
  std::string_view style; ///< "half" or "interleaved", unless config.json has "rope"
  /// The part of a head that is rotated where config.json is silent.
  double part = 1;
  /// The keys of config.json that models of this kind read. Without a model_type all families' keys
  /// are read.
  std::initializer_list<std::string_view> base_keys = {"rope_theta"};
  std::initializer_list<std::string_view> part_keys = {"partial_rotary_factor"};
  std::string_view dims_key = {};
  double base = 10000;
  /// "full_attention" or "sliding_attention": whose values of rope_parameters, where these differ.
  std::string_view layer_type = {};
  bool scaled = true; ///< whether rope_scaling is this layer's
};

/// Sets rope and what belongs to it. Needs W_q or W_qkv taken and the heads set, for the
/// dimensions. Throws Error for a rope_scaling of an unknown kind, unless the user chose one.
void set_rotary(Translation& to, const Rotary& rotary);
/// This layer of the model does not rotate (NoPE).
void set_no_rotary(Translation& to);
/// A number of rope_scaling or rope_parameters.
std::optional<double> rope_number(const Translation& to, std::string_view key);

/// GPT-J's and CodeGen's: interleaved pairs, on rotary_dim dimensions; a note where config.json is
/// silent.
void set_rotary_of_gptj(Translation& to);

/// Whether a family's layer of this number sees a window only; nullptr: each does, whatever
/// layer_types says.
using Slides = bool (*)(const Group& group, std::size_t layer);

/// Whether layer_types (or `slides`, by the layer's number, where config.json has none) says that
/// this layer sees a window only; nothing where the layer's number is not known.
std::optional<bool> is_sliding(const Group& group, Slides slides);

/// Sets window_left for sliding_window W: a query sees W keys, its own and W − 1 before.
/// `otherwise`: W where config.json is silent; 0 = no window, as null is.
void set_window(Translation& to, Slides slides, std::size_t otherwise = 0);

/// BERT's position_embedding_type: absolute, relative_key or relative_key_query; nothing where
/// config.json is silent. Throws Error for any other.
std::optional<std::string> position_embedding_type(const Group& group);

/// Element `index` of a list of config.json: "a,b,c".
std::optional<std::string> element(const std::string& list, std::size_t index);

/// Every layer; every second, from the first; from max_window_layers on, Qwen's 28 where
/// config.json is silent; all but the fourth, eighth …
bool every_layer(const Group& group, std::size_t layer);
bool even_layers(const Group& group, std::size_t layer);
bool upper_layers(const Group& group, std::size_t layer);
bool all_but_every_fourth(const Group& group, std::size_t layer);

} // namespace mha::naming
