#pragma once
// A model by description: what --naming FILE.json says of a checkpoint that no family knows. It is
// a family and a record made from JSON (load/read_description.hpp); the checkpoint is presented
// under the record's names (load/described.hpp), and read as every other.

#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha::naming {

/// A value that a description says: itself, or where config.json has it.
struct DescribedValue {
  std::string where;                   ///< "naming.json: line 5, column 12"; "" = not said
  std::vector<std::string> keys;       ///< of config.json: the first that is there
  std::optional<std::string> constant; ///< itself; beside keys what is taken without them
  std::vector<DescribedValue> layers;  ///< one of each layer, instead
  bool optional = false;               ///< not said where config.json has none of the keys
  bool inverse = false;                ///< 1 divided by it
  bool positive = false;               ///< a number above 0
  std::string from;                    ///< where it comes from, for people; "" = as it does

  bool said() const { return !where.empty(); }
  /// The value for a layer; nothing where it is not said. Throws Error where config.json has none
  /// of the keys, or there is no value for the layer.
  std::optional<std::string> value(const Group& group, std::size_t layer = 0) const;
  /// The same as a number.
  std::optional<double> number(const Group& group, std::size_t layer = 0) const;
};

/// A tensor of the file, and how it lies there.
struct DescribedTensor {
  std::string key;                 ///< "mlp.in"
  std::string where;               ///< "naming.json: line 9, column 5: \"mlp.in\""
  std::string name;                ///< with {layer} and {head}
  std::string layout;              ///< its axes: o, i, h; "" = as the canonical tensor's
  std::vector<std::string> split;  ///< "q", "k", "v": what lies side by side in its outputs
  bool by_head = false;            ///< each key/value head's parts together
  std::size_t groups = 0;          ///< so many groups side by side have all parts; 0: not said
  std::optional<std::string> bias; ///< its name; "" = none; not said: beside the weight
  bool needs_bias = false;         ///< beside the weight, and missing is an error
  bool optional = false;
  std::string times;          ///< the name of what multiplies its outputs; "" = nothing does
  std::vector<double> values; ///< instead of a tensor of the file
};

struct DescribedNorm {
  std::string key, where;
  std::string kind; ///< "layer", "std", "rms", "batch", "none"
  DescribedValue eps;
  bool one_plus = false;
  bool affine = true;         ///< has weight and bias
  bool optional = false;      ///< layers may lack it
  std::string weight;         ///< its name, with {layer}
  DescribedTensor statistics; ///< of a batch norm: name = the mean's, *bias = the variance's
  std::optional<std::string> bias;
};

/// Positions whose rows are computed: sines and cosines of the position times pairs' frequencies.
struct DescribedSinusoid {
  std::string where; ///< "" = there is none
  /// All sines, then all cosines; else those of a pair side by side.
  bool halves = false;
  /// The slowest of n pairs turns by 1 / base a position; else by base^(1/n) / base.
  bool inclusive = false;
  DescribedValue base, length; ///< 10000; how many rows there are, 4096

  bool said() const { return !where.empty(); }
};

/// Whether modules have biases: always or never, or as a key of config.json says.
struct BiasRule {
  Bias fixed = Bias::if_there;
  std::string key; ///< "" = `fixed` holds
  bool otherwise = false;

  Bias of(const Group& group) const;
};

/// Something that data does not say: a function of steps.hpp with its arguments.
struct DescribedStep {
  std::string name;
  JsonTree arguments;
};

struct Description {
  std::string file, title;
  std::vector<std::string> layers; ///< what stands before a layer's names; several: one a layer
  DescribedValue num_layers;
  /// "W_q", "mlp.in" of the layers; "embed.token", "embed.linear", "head", "head.dense".
  std::map<std::string, DescribedTensor> tensors;
  /// "norm", "mlp.norm" of the layers; "embed.norm", "final_norm", "head.norm".
  std::map<std::string, DescribedNorm> norms;
  DescribedValue activation, head_activation;
  DescribedValue token_scale;              ///< a number, or sqrt_d_model
  DescribedValue position_scale;           ///< a number
  DescribedSinusoid sinusoid;              ///< in the place of a table of positions
  std::vector<DescribedTensor> first_rows; ///< before the vectors that come in
  DescribedValue first_position;
  DescribedValue softcap, head_scale;
  std::map<std::string, DescribedValue> settings;
  std::vector<std::string> ignore; ///< names, with {layer} and *
  std::string text;                ///< of the file
  std::string activation_keys;     ///< of config.json, as the record has them
  ModelRecord record;              ///< under the names that the checkpoint is presented by
  Family family;
  std::string not_in_all; ///< names that layers may lack, as the record has them

  // Of a family's file.
  bool is_family = false;
  std::size_t attention_depth = 1; ///< how many modules attention stands below its block
  bool norm_is_said = false;       ///< the norm before attention, if only to be none
  BiasRule qkv_bias, output_bias, mlp_bias, norm_bias;
  std::vector<DescribedStep> steps, model_steps;
  std::vector<std::string> known_keys; ///< of config.json, without effect
  std::vector<Note> notes;             ///< of every layer
  std::vector<Message> refusals;       ///< why it is not computed
  DescribedValue residual_scale;
  std::string shared_tokens; ///< where the file lacks the tokens' table at its place
  std::string models, always, beside, eps_keys; ///< as the record has them
};

/// Where the tensors stand that a description presents: "described.layers.3.W_q",
/// "described.embed.token.weight".
inline constexpr std::string_view described_model = "described.";
inline constexpr std::string_view described_layers = "layers";

/// Whether a key of `tensors` or `norms` is one of every layer, not of the model's ends.
bool is_of_layer(std::string_view key);

/// Reads a layer as a family's file says it.
void translate_family(const Description& said, const Group& group, Translation& to);
/// The record of a family's file, with what config.json says.
ModelRecord settled_record(const Description& said, const Group& group);

/// A description's function of a Family, its record's settle and norm_form.
void translate_described(const Group& group, Translation& to);
void settle_described(const Group& group, ModelRecord& record);
void form_described_norm(const Group& group, std::string_view name, Norm& norm, bool& bare);

} // namespace mha::naming
