#pragma once
// Positions as config.json describes them, the same in many families.

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

} // namespace mha::naming
