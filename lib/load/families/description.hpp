#pragma once
// A description of models: what tensors are called, how they are stored and what is computed of
// them, as a family's file (load/families/NAME.json) or a user's says it, --naming FILE.json
// (docs/describing.md). Read from JSON by load/read_description.hpp.

#include <mha/layer/block.hpp>
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

  bool said() const { return !where.empty() || constant || !keys.empty(); }
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

/// Whether a module has a bias: as the file has it; always, so that a missing one is lost; never,
/// so that one in the file is left over.
enum class Bias : std::uint8_t { if_there, always, never };

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

/// A family's file, with the cases that hold for a layer, or a user's.
struct Description {
  std::string file, title;
  std::string text;                ///< of a user's file
  std::string own_words;           ///< of a user's family: how `where` of its file's words begins
  bool is_family = false;          ///< names are completed, and are below the prefixes found
  std::vector<std::string> layers; ///< what stands before a layer's names; several: one a layer
  DescribedValue num_layers;
  std::size_t attention_depth = 1; ///< how many modules attention is below its block

  /// "W_q", "mlp.in" of the layers; "embed.token", "embed.linear", "head", "head.dense".
  /// "head.bias" is a bias of another name than the head's.
  std::map<std::string, DescribedTensor> tensors;
  /// "norm", "mlp.norm" of the layers; "embed.norm", "final_norm", "head.norm".
  std::map<std::string, DescribedNorm> norms;
  std::vector<std::string> always;  ///< names below a block that every one has; a|b is one of two
  std::vector<std::string> lacking; ///< those that some layers lack on purpose
  std::vector<std::string> ignore;  ///< names, with {layer} and *; a family's, modules

  BlockShape block = BlockShape::pre;
  DescribedNorm norm_form;   ///< what a norm is that says nothing else
  bool norm_is_said = false; ///< the norm before attention, if only to be none
  DescribedValue activation, residual_scale;
  BiasRule qkv_bias, output_bias, mlp_bias, norm_bias;
  std::map<std::string, DescribedValue> settings;
  std::map<std::string, DescribedValue> sizes; ///< by letter, of layers that are not computed

  DescribedValue token_scale;              ///< a number, (rounded_)sqrt_d_model
  DescribedValue position_scale;           ///< a number
  DescribedSinusoid sinusoid;              ///< in the place of a table of positions
  std::vector<DescribedTensor> first_rows; ///< before the vectors that come in
  DescribedValue first_position;
  bool counts_from_pad = false; ///< RoBERTa: positions from pad_token_id + 1, padding has its own
  bool drops_mask = false;      ///< ESM: Embedding::mask_token
  std::string shared_tokens;    ///< where the file lacks the tokens' table at its place
  ProjectionPlace linear_place = ProjectionPlace::normed;

  bool tied = false;           ///< where tie_word_embeddings is silent
  bool own_vocabulary = false; ///< the head's rows need not be the embedding's
  DescribedValue head_activation, softcap, head_scale;
  bool predicts_next = true; ///< else the hidden token

  /// What the modules of attention and of the feed-forward return, where it is not their result,
  /// nor in a post-norm block what attention's norm makes of the sum.
  std::optional<Stage> attention_returns, mlp_returns;

  std::vector<DescribedStep> steps, model_steps;
  std::vector<std::string> known_keys; ///< of config.json, without effect
  std::vector<Note> notes;             ///< of every layer
  std::vector<Message> refusals;       ///< why it is not computed
  FamilyRow family;                    ///< of a user's file

  const DescribedTensor* tensor(std::string_view key) const;
  /// Whether the user's file itself names the tensor, so that it has to be there.
  bool is_users(const DescribedTensor& tensor) const;
  const DescribedNorm* norm(std::string_view key) const;
  /// Whether attention's input is normalised by a norm of its own: else "norm" is after it.
  bool normalises_before() const;
};

/// The epsilon of a norm. (x − mean) / (s + eps) with the deviation s of n − 1 is the layer norm
/// (x − mean) / √(variance + eps²) · √((n − 1) / n), to eps / s of its value, and exactly that
/// where s is 0; its weight has the root.
double epsilon_of(const DescribedNorm& norm, const Group& group);

/// Whether a key of `tensors` or `norms` is one of every layer, not of the model's ends.
bool is_of_layer(std::string_view key);
/// Whether it is one of a mixture of experts.
bool is_of_mixture(std::string_view key);
/// Whether it is a tensor of attention.
bool is_of_attention(std::string_view key);

} // namespace mha::naming
