#pragma once
// A description of models: the names of their tensors, how they are stored and what is computed
// with them. It comes from a family's file (load/families/NAME.json) or a user's, --naming
// FILE.json (docs/describing.md), and is read from JSON by load/read_description.hpp.

#include <mha/layer/block.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha::naming {

/// A value in a description: given itself, or by the key of config.json that has it.
struct DescribedValue {
  std::string where;                   ///< "naming.json: line 5, column 12"; "" = not given
  std::vector<std::string> keys;       ///< of config.json; the first that it has counts
  std::optional<std::string> constant; ///< the value itself, or the default of `keys`
  std::vector<DescribedValue> layers;  ///< instead, a value for each layer
  bool optional = false;               ///< absent if config.json has none of the keys
  bool inverse = false;                ///< 1 is divided by the value
  bool positive = false;               ///< must be above 0
  std::string from;                    ///< its origin, for people; "" = the actual one

  bool is_given() const { return !where.empty() || constant || !keys.empty(); }
  /// The value for a layer; nothing if it is not given. Throws Error if config.json has none of the
  /// keys or if there is no value for the layer.
  std::optional<std::string> value(const Group& group, std::size_t layer = 0) const;
  /// The same as a number.
  std::optional<double> number(const Group& group, std::size_t layer = 0) const;
};

/// A tensor of the file, and how it is stored there.
struct DescribedTensor {
  std::string key;                 ///< "mlp.in"
  std::string where;               ///< "naming.json: line 9, column 5: \"mlp.in\""
  std::string name;                ///< with {layer} and {head}
  std::string layout;              ///< its axes: o, i, h; "" = those of the canonical tensor
  std::vector<std::string> split;  ///< "q", "k", "v": the parts side by side in its outputs
  bool by_head = false;            ///< the parts of each key/value head are together
  bool by_row = false;             ///< the parts of experts.in_up alternate, output by output
  std::size_t groups = 0;          ///< number of groups that each have all parts; 0: not given
  std::optional<std::string> bias; ///< its name; "" = none; nullopt: beside the weight
  bool needs_bias = false;         ///< a missing bias beside the weight is an error
  bool optional = false;
  std::string times;          ///< the name of a factor of its outputs; "" = none
  std::vector<double> values; ///< instead of a tensor of the file
};

struct DescribedNorm {
  std::string key, where;
  std::string kind; ///< "layer", "std", "rms", "batch", "none"
  DescribedValue eps;
  bool one_plus = false;
  bool affine = true;         ///< has weight and bias
  bool optional = false;      ///< layers may lack it
  DescribedValue scale;       ///< multiplies the weight: a number, or 1/sqrt_d_model
  std::string weight;         ///< its name, with {layer}
  DescribedTensor statistics; ///< of a batch norm: name = the mean's, *bias = the variance's
  std::optional<std::string> bias;
};

/// A computed table of positions: sines and cosines of the position times the frequency of a pair.
struct DescribedSinusoid {
  std::string where; ///< "" = the model has none
  /// All sines, then all cosines; otherwise those of a pair are side by side.
  bool halves = false;
  /// The slowest of n pairs turns by 1 / base for each position; otherwise by base^(1/n) / base.
  bool inclusive = false;
  DescribedValue base;   ///< 10000
  DescribedValue length; ///< number of rows, 4096

  bool is_given() const { return !where.empty(); }
};

/// Whether a module has a bias: if the file has one; always, so that a missing one is an error;
/// never, so that one in the file is ignored.
enum class Bias : std::uint8_t { if_there, always, never };

/// Whether modules have biases, by a fixed rule or by a key of config.json.
struct BiasRule {
  Bias fixed = Bias::if_there;
  std::string key;        ///< "" = `fixed` holds
  bool otherwise = false; ///< the default of `key`

  Bias of(const Group& group) const;
};

/// A function of steps.hpp with its arguments, for rules that data cannot express.
struct DescribedStep {
  std::string name;
  JsonTree arguments;
};

/// The content of a user's file, or of a family's file with the cases that hold for a layer.
struct Description {
  std::string file, title;
  std::string text;                ///< of a user's file
  std::string own_words;           ///< of a user's family: the start of `where` for its own file
  bool is_family = false;          ///< names are completed, and are below the prefixes found
  std::vector<std::string> layers; ///< the prefix of a layer's names, or one prefix for each layer
  DescribedValue num_layers;
  std::size_t attention_depth = 1; ///< levels of modules from a block down to its attention

  /// "W_q", "mlp.in" of the layers; "embed.token", "embed.linear", "head", "head.dense".
  /// "head.bias" is for a bias that is not named like the head.
  std::map<std::string, DescribedTensor> tensors;
  /// "norm", "mlp.norm" of the layers; "embed.norm", "final_norm", "head.norm".
  std::map<std::string, DescribedNorm> norms;
  std::vector<std::string> always;  ///< names that every block has; a|b is one of the two
  std::vector<std::string> lacking; ///< names of these that some layers lack on purpose
  std::vector<std::string> ignore;  ///< names with {layer} and *; in a family's file, modules

  BlockShape block = BlockShape::pre;
  DescribedNorm norm_form;    ///< the defaults of all norms
  bool norm_is_given = false; ///< the norm before attention is given, even as none
  DescribedValue activation, residual_scale;
  BiasRule qkv_bias, output_bias, mlp_bias, norm_bias;
  std::map<std::string, DescribedValue> settings;
  std::map<std::string, DescribedValue> sizes; ///< by letter, of layers that are not computed

  DescribedValue token_scale;              ///< a number, or (rounded_)sqrt_d_model
  DescribedValue position_scale;           ///< a number
  DescribedSinusoid sinusoid;              ///< replaces a table of positions
  std::vector<DescribedTensor> first_rows; ///< rows put before the input vectors
  DescribedValue first_position;
  bool counts_from_pad = false; ///< RoBERTa: positions from pad_token_id + 1; padding has its own
  bool drops_mask = false;      ///< ESM: Embedding::mask_token
  std::string shared_tokens;    ///< the name used if the file lacks the tokens' own table
  ProjectionPlace linear_place = ProjectionPlace::normed;

  bool tied = false;           ///< the default of tie_word_embeddings
  bool own_vocabulary = false; ///< the head may have other rows than the embedding
  DescribedValue head_activation, softcap, head_scale, unit_inputs;
  bool predicts_next = true; ///< otherwise the masked token

  /// The stages that the modules of attention and of the feed-forward return, if not their results
  /// or, in a post-norm block, the output of attention's norm.
  std::optional<Stage> attention_returns, mlp_returns;

  std::vector<DescribedStep> steps, model_steps;
  std::vector<std::string> known_keys; ///< of config.json, without effect
  std::vector<Note> notes;             ///< for every layer
  std::vector<Message> refusals;       ///< reasons why the layer is not computed
  FamilyRow family;                    ///< of a user's file

  const DescribedTensor* tensor(std::string_view key) const;
  /// Whether the user's file itself names the tensor, so that it has to be there.
  bool is_users(const DescribedTensor& tensor) const;
  const DescribedNorm* norm(std::string_view key) const;
  /// Whether "norm" normalises attention's input; otherwise it is after attention.
  bool normalises_before() const;
};

/// The epsilon of a norm. (x − mean) / (s + eps), with the deviation s of n − 1, equals the layer
/// norm (x − mean) / √(variance + eps²) · √((n − 1) / n) up to a relative eps / s, and exactly
/// where s is 0; the root is multiplied into the weight.
double epsilon_of(const DescribedNorm& norm, const Group& group);

/// Whether a key of `tensors` or `norms` belongs to every layer, not to the ends of the model.
bool is_of_layer(std::string_view key);
/// Whether a key belongs to a mixture of experts.
bool is_of_mixture(std::string_view key);
/// Whether a key belongs to attention.
bool is_of_attention(std::string_view key);

} // namespace mha::naming
