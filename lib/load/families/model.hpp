#pragma once
// A family's whole model around attention, as data: one record beside the family's names of
// attention's tensors. A model = embedding + blocks + last norm + head.

#include <mha/layer/block.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace mha::naming {

/// Whether a module has a bias: as the file has it; always, so that a missing one is lost; never,
/// so that one in the file is left over.
enum class Bias : std::uint8_t { if_there, always, never };

/// Names stand without ".weight" and ".bias"; several, separated by spaces, are choices, the first
/// that the file has. "" is a neutral element: no such step.
struct ModelRecord {
  /// The config's model_types that this is right for; a checkpoint without one is read so, too.
  std::string_view models = {};
  /// What stands before a block's number in names, below the model: "h", "model.layers".
  std::string_view layers = {};

  /// What a block always has, by its names below its number; a|b is one of the two.
  std::string_view always = {};
  /// What some layers lack on purpose, by its names below their numbers.
  std::string_view not_in_all = {};
  /// Tensors of other heads, below the model or at the top, and buffers: no stage needs them.
  std::string_view beside = {};

  // The embedding, below the model ("transformer.").
  std::string_view tokens = {};
  /// Where the file lacks them there: at the top, or below any part of the model's prefix.
  std::string_view shared_tokens = {};
  std::string_view positions = {};
  std::string_view types = {};
  std::string_view embedding_norm = {};
  bool counts_from_pad = false; ///< RoBERTa: positions from pad_token_id + 1, padding has its own
  bool drops_mask = false;      ///< ESM: Embedding::mask_token
  bool times_root_d = false;    ///< × √d
  bool rounds_root_d = true;    ///< Gemma: rounded to the weights' precision
  double embedding_scale = 1;   ///< × this
  std::size_t first_position = 0;
  std::string_view first_rows = {}; ///< before vectors that come in (a class token)
  /// The linear map of a factorised embedding, (out, in), and where it stands.
  std::string_view embedding_linear = {};
  ProjectionPlace embedding_linear_place = ProjectionPlace::normed;
  Bias embedding_linear_bias = Bias::if_there;

  // The block, below its number ("transformer.h.0."). Attention's own norm is the naming's.
  BlockShape shape = BlockShape::pre;
  InputNorm norm = InputNorm::layer;
  std::string_view eps_keys = {}; ///< of config.json, the first that is there
  double eps = 1e-5;
  Bias norm_bias = Bias::if_there; ///< of layer norms
  bool one_plus = false;           ///< the file holds w, the norm multiplies by 1 + w
  bool norm_is_bare = false;       ///< norms without tensors (TransformerLens' LNPre, RMSPre)
  std::string_view post_attention_norm = {};
  std::string_view pre_mlp_norm = {};
  std::string_view post_mlp_norm = {};
  std::string_view post_block_norm = {};
  double residual_scale = 1; ///< × what attention and feed-forward add to the stream

  // The feed-forward, below the block. `in` is the gate of a gated one.
  std::string_view mlp_in = {};
  std::string_view mlp_up = {};
  std::string_view mlp_gate_up = {}; ///< both in one, the gate's rows first
  std::string_view mlp_out = {};
  std::string_view mlp_norm = {}; ///< of the activation's result (solu_ln)
  bool in_out = false;            ///< weights are (in, out)
  Bias mlp_bias = Bias::if_there;
  bool bias_of_product = false; ///< up's bias is added to the product (TransformerLens)
  std::string_view activation_keys = {};
  std::string_view activation = "gelu";

  // Hooks: what the modules of attention and of the feed-forward return, where it is not their
  // result, nor in a post-norm block what attention's norm makes of the sum.
  std::optional<Stage> attention_returns = {};
  std::optional<Stage> mlp_returns = {};

  // The end. The head stands at the top or below any part of the model's prefix.
  std::string_view last_norm = {};
  std::string_view head = {};
  Bias head_has_bias = Bias::never; ///< beside its weight; head_bias is another
  bool own_vocabulary = false;      ///< the head's rows need not be the embedding's
  bool tied = false;                ///< where tie_word_embeddings is silent
  std::string_view head_dense = {}; ///< a masked model's; without it in the file there is no head
  Bias head_dense_bias = Bias::always;
  std::string_view head_norm = {};
  std::string_view head_bias = {};       ///< whole name
  std::string_view head_activation = {}; ///< "" = the feed-forward's
  std::string_view softcap_key = {};
  double softcap = 0; ///< where config.json is silent
  double head_scale = 1;
  bool causal = true; ///< predicts the next token; else the masked one
};

} // namespace mha::naming
